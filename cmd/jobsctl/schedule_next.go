package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/schedule"
)

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
