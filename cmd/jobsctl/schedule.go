package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/schedule"
)

func (a *app) schedule() *cobra.Command {
	return group("schedule", "List, pause, resume, run and delete schedules",
		`List, pause, resume, run and delete schedules, and try specs out. Programs make them, with package
schedule; servers that have its extension run them. The command needs neither the
programs' code nor a server.`,
		a.scheduleList(), a.scheduleShow(), a.scheduleNext(), a.schedulePause(), a.scheduleResume(), a.scheduleRun(), a.scheduleDelete())
}

// schedules opens the schedules of the store, as a tool that defines none.
func (a *app) schedules(ctx context.Context) (*schedule.Schedules, error) {
	b, err := a.broker(ctx)
	if err != nil {
		return nil, err
	}
	return schedule.New(b, ""), nil
}

// scheduling returns what a command does with the schedules of the store, which is opened first.
func (a *app) scheduling(run func(ctx context.Context, s *schedule.Schedules, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.schedules(cmd.Context())
		if err != nil {
			return err
		}
		return run(cmd.Context(), s, args)
	}
}

func (a *app) scheduleList() *cobra.Command {
	var owner string
	var status schedule.Status
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules with their next and last ticks",
		Long: `List schedules with their next and last ticks. MISSED counts the ticks that did not
become jobs; "jobsctl schedule show" says why. The status is

  waiting     for its next tick
  paused      until it is resumed
  ended       there is no further tick
  late        a tick has been due for two minutes and is not enqueued, or the
              schedule sleeps past its next tick
  failing     the last tick was not enqueued
  stopped     the schedule's own job has ended or is held
  unreadable  this program cannot read the definition`,
		RunE: a.scheduling(func(ctx context.Context, s *schedule.Schedules, _ []string) error {
			if err := checkWord("status", status, schedule.Statuses()); err != nil {
				return err
			}
			all, err := s.List(ctx)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(i schedule.Info) bool {
				return owner != "" && i.Owner != owner || status != "" && i.Status != status
			})
			l := a.newList(scheduleColumns)
			for i := range all {
				s := &all[i]
				l.add(viewSchedule(s, false), s.ID, s.Spec, zoneOf(s), s.Status, s.Next, s.Last, s.Counts.Missed(),
					s.Queue, s.Type, s.Owner)
			}
			return l.end()
		}),
	}
	a.sortFlag(cmd, scheduleColumns)
	cmd.Flags().StringVar(&owner, "owner", "", "only those of this owner")
	cmd.Flags().StringVar((*string)(&status), "status", "", "only those with this status")
	completeWith(cmd, "status", schedule.Statuses())
	return cmd
}

// zoneOf returns the zone of a schedule's times, for people.
func zoneOf(i *schedule.Info) string {
	if i.Spec == "" { // it could not be read
		return i.Zone
	}
	return cmp.Or(i.Zone, "UTC")
}

var scheduleColumns = []column{
	{head: "SCHEDULE", least: 12},
	{head: "SPEC", rank: 2, least: 8},
	{head: "ZONE", rank: 5, least: 8},
	{head: "STATUS"},
	{head: "NEXT", rank: 1},
	{head: "LAST", rank: 4},
	{head: "MISSED"},
	{head: "QUEUE", rank: 3, least: 8},
	{head: "TYPE", rank: 6, least: 8},
	{head: "OWNER", rank: 7, least: 8},
}

func joined[T any](all []T) string { return strings.Join(texts(all), ", ") }

// texts returns the names of states and the like.
func texts[T any](all []T) []string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = fmt.Sprint(one)
	}
	return names
}

func (a *app) scheduleShow() *cobra.Command {
	var payload bool
	cmd := &cobra.Command{
		Use:   "show SCHEDULE",
		Short: "Show a schedule with its definition and its counts",
		Long: `Show a schedule with its definition and its counts. The payload of its task may
contain secrets; --payload shows it.`,
		RunE: a.scheduling(func(ctx context.Context, s *schedule.Schedules, args []string) error {
			i, err := s.Get(ctx, args[0])
			if err != nil {
				return err
			}
			if a.structured() {
				return a.object(viewSchedule(&i, payload))
			}
			return a.showSchedule(&i, payload)
		}),
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "show the payload, too")
	return cmd
}

func (a *app) showSchedule(i *schedule.Info, payload bool) error {
	t := a.table("SCHEDULE", i.ID)
	field := t.field
	field("SPEC", i.Spec)
	field("ZONE", zoneOf(i))
	field("STATUS", string(i.Status))
	field("ERROR", i.Error)
	if i.Paused != nil {
		field("PAUSED", clock(i.Paused.At)+" by "+i.Paused.By)
	}
	field("NEXT", clock(i.Next))
	field("LAST", clock(i.Last))
	field("LAST JOB", i.LastJob)
	if i.LastQueue != i.Queue {
		field("LAST QUEUE", i.LastQueue)
	}
	field("BUFFERED", clock(i.Buffered))
	field("START", clock(i.Start))
	field("END", clock(i.End))
	field("JITTER", span(i.Jitter))
	field("EXPIRY", span(i.Expiry))
	misfire := fmt.Sprintf("runs up to %d", i.Misfire.Max)
	if i.Misfire.Window > 0 {
		misfire += " that are not older than " + span(i.Misfire.Window)
	}
	field("MISFIRE", misfire)
	field("OVERLAP", string(i.Overlap))
	c := i.Counts
	field("TICKS", fmt.Sprintf("%d enqueued, %d missed: %d too late, %d too many, %d overlapped, %d duplicate, %d refused",
		c.Enqueued, c.Missed(), c.TooLate, c.TooMany, c.Overlapped, c.Duplicate, c.Refused))
	field("QUEUE", i.Queue)
	field("TYPE", i.Type)
	field("OWNER", i.Owner)
	field("CREATED", clock(i.Created))
	field("PAYLOAD", plural(len(i.Payload), "byte"))
	if err := t.end(); err != nil {
		return err
	}
	if payload {
		a.say("\nPAYLOAD\n  %s", content(i.Payload))
	}
	return nil
}

func (a *app) schedulePause() *cobra.Command {
	var by string
	cmd := a.eachSchedule("pause", "Pause schedules: they do not tick, and count nothing as missed",
		`Pause schedules: they do not tick. Ticks meanwhile do not count as missed. Jobs of
earlier ticks continue. A pause stays when a program puts the schedule again.`,
		false, a.said("is paused", func(s *schedule.Schedules, ctx context.Context, id string) error {
			return s.Pause(ctx, id, cmp.Or(by, a.operator()))
		}))
	cmd.Flags().StringVar(&by, "by", "", "who pauses it, for others to see (default: the user and host)")
	return cmd
}

func (a *app) scheduleResume() *cobra.Command {
	return a.eachSchedule("resume", "Resume paused schedules, with the first tick after now",
		"Resume paused schedules. The next tick is the first one after now.", false, a.said("is resumed", (*schedule.Schedules).Resume))
}

type scheduleVerb func(s *schedule.Schedules, ctx context.Context, id string) error

// said returns a verb that says what was done.
func (a *app) said(done string, do scheduleVerb) scheduleVerb {
	return func(s *schedule.Schedules, ctx context.Context, id string) error {
		err := do(s, ctx, id)
		if err == nil {
			a.say("%s %s.", plain(id), done)
		}
		return err
	}
}

func (a *app) scheduleRun() *cobra.Command {
	return a.eachSchedule("run", "Enqueue one more job of each schedule, at once",
		`Enqueue one more job of each schedule, at once. A pause and the overlap policy are
ignored. A server that runs schedules enqueues the jobs. The command prints their IDs.`,
		false, func(s *schedule.Schedules, ctx context.Context, id string) error {
			job, err := s.RunNow(ctx, id)
			if err != nil {
				return err
			}
			return a.answer(map[string]string{"schedule": id, "job": job}, "%s runs as %s.", plain(id), plain(job))
		})
}

// eachSchedule returns a command that calls do for each schedule named. If it is grave, the command asks
// first.
func (a *app) eachSchedule(verb, short, long string, grave bool, do scheduleVerb) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " SCHEDULE…",
		Short: short,
		Long:  long,
		RunE: a.scheduling(func(ctx context.Context, s *schedule.Schedules, args []string) error {
			if grave { // before the question is asked
				for _, id := range args {
					if _, err := s.Get(ctx, id); err != nil {
						return err
					}
				}
			}
			if err := a.confirm(ctx, grave, "%s %s", verb, plural(len(args), "schedule")); err != nil {
				return err
			}
			var errs []error
			for _, id := range args {
				errs = append(errs, do(s, ctx, id))
			}
			return errors.Join(errs...)
		}),
	}
}

func (a *app) scheduleDelete() *cobra.Command {
	return a.eachSchedule("delete", "Delete schedules with their counts",
		`Delete schedules with their counts. Jobs that they enqueued stay. If a program
still defines a schedule, it comes back when the program starts: pause it instead.`,
		true, a.said("is deleted", (*schedule.Schedules).Delete))
}

// scheduleView is a schedule as -o json writes it. Its names are a contract: fields are
// added, none is renamed. Durations are in seconds.
type scheduleView struct {
	ID            string          `json:"id"`
	Owner         string          `json:"owner"`
	Spec          string          `json:"spec"`
	Zone          string          `json:"zone,omitempty"`
	Status        string          `json:"status"`
	Error         string          `json:"error,omitempty"`
	PausedAt      *time.Time      `json:"paused_at,omitempty"`
	PausedBy      string          `json:"paused_by,omitempty"`
	NextAt        *time.Time      `json:"next_at,omitempty"`
	LastAt        *time.Time      `json:"last_at,omitempty"`
	LastJob       string          `json:"last_job,omitempty"`
	LastQueue     string          `json:"last_queue,omitempty"`
	BufferedAt    *time.Time      `json:"buffered_at,omitempty"`
	Start         *time.Time      `json:"start,omitempty"`
	End           *time.Time      `json:"end,omitempty"`
	Jitter        float64         `json:"jitter_seconds,omitempty"`
	Expiry        float64         `json:"expiry_seconds,omitempty"`
	MisfireMax    int             `json:"misfire_max"`
	MisfireWindow float64         `json:"misfire_window_seconds,omitempty"`
	Overlap       string          `json:"overlap"`
	Missed        int64           `json:"missed"`
	Counts        schedule.Counts `json:"counts"`
	Queue         string          `json:"queue"`
	Type          string          `json:"type"`
	CreatedAt     *time.Time      `json:"created_at,omitempty"`
	PayloadBytes  int             `json:"payload_bytes"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 string          `json:"payload_base64,omitempty"`
}

func viewSchedule(i *schedule.Info, payload bool) scheduleView {
	v := scheduleView{ID: i.ID, Owner: i.Owner, Spec: i.Spec, Zone: i.Zone, Status: string(i.Status), Error: i.Error,
		NextAt: at(i.Next), LastAt: at(i.Last), LastJob: i.LastJob, LastQueue: i.LastQueue, BufferedAt: at(i.Buffered),
		Start: at(i.Start), End: at(i.End),
		Jitter: i.Jitter.Seconds(), Expiry: i.Expiry.Seconds(), MisfireMax: i.Misfire.Max, MisfireWindow: i.Misfire.Window.Seconds(),
		Overlap: string(i.Overlap), Missed: i.Counts.Missed(), Counts: i.Counts, Queue: i.Queue, Type: i.Type, CreatedAt: at(i.Created),
		PayloadBytes: len(i.Payload)}
	if i.Paused != nil {
		v.PausedAt, v.PausedBy = at(i.Paused.At), i.Paused.By
	}
	if payload {
		v.Payload, v.PayloadBase64 = encoded(i.Payload)
	}
	return v
}

// maxNext bounds how many times of a spec are listed.
const maxNext = 10_000

func (a *app) scheduleNext() *cobra.Command {
	var zone, from string
	var limit int
	cmd := &cobra.Command{
		Use:   "next SPEC",
		Short: "List the next times of a spec, without a store",
		Long: `List the next times of a spec, without a store: a dry run before a program puts a
schedule. The spec is a cron line in quotes, a shorthand such as @daily, or @every
with a duration. Without --zone its times are those of UTC, as in programs with an
empty zone. Jitter, start and end of a schedule are not applied.`,
		Example: "  jobsctl schedule next '30 2 * * *' --zone Europe/Berlin --from 2026-03-28T00:00:00Z\n" +
			"  jobsctl schedule next '0 9 * * MON#1' -n 12\n  jobsctl schedule next '@every 90s' --json | jq -r .at",
		RunE: func(_ *cobra.Command, args []string) error {
			after := time.Now()
			if from != "" {
				var err error
				if after, err = time.Parse(time.RFC3339, from); err != nil {
					return misuse("--from %q is not a time like 2026-01-02T15:04:05Z", from)
				}
				after = after.Add(-1) // a tick at this very time counts
			}
			if limit < 1 || limit > maxNext {
				return misuse("--limit is %d; use 1 to %d", limit, maxNext)
			}
			times, err := schedule.Cron(args[0], zone).Next(after, limit)
			if err != nil {
				return err
			}
			location, err := time.LoadLocation(zone) // "" is UTC
			if err != nil {
				return err
			}
			if !a.structured() && len(times) == 0 {
				a.say("It has no further time.")
				return nil
			}
			l := a.newList([]column{{head: "TIME"}, {head: "ZONE"}, {head: "UTC", rank: 1}, {head: "FROM NOW"}})
			for _, t := range times {
				local := t.In(location)
				l.add(nextView{at(t), local.Format(time.RFC3339), location.String()}, local.Format("Mon 2006-01-02 15:04:05 MST"),
					location.String(), t.UTC().Format(time.RFC3339), span(time.Until(t)))
			}
			return l.end()
		},
	}
	cmd.Flags().StringVar(&zone, "zone", "", "time zone, such as Europe/Berlin (default UTC)")
	cmd.Flags().StringVar(&from, "from", "", "list times from this one on, such as 2026-01-02T15:04:05Z (default: now)")
	cmd.Flags().IntVarP(&limit, "limit", "n", 10, "number of times")
	return cmd
}

// nextView is a time as -o json writes it.
type nextView struct {
	At    *time.Time `json:"at"`
	Local string     `json:"local"`
	Zone  string     `json:"zone"`
}
