package asynqdata

import (
	"context"
	"crypto/md5" // what asynq uses; nothing is secret here
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/schedule"
)

// Periodic is an entry of a scheduler of asynq: a task that the scheduler enqueues at certain times.
type Periodic struct {
	Spec    string // a line of cron, as the scheduler got it
	Type    string
	Payload []byte
	Options []string // as asynq writes them, such as Queue("low")
}

// Periodic reads the entries of all schedulers that are alive, each once, even if several schedulers
// have the same entry. Entries of a scheduler that has ended are gone after some seconds.
func (s *Store) Periodic(ctx context.Context) ([]Periodic, error) {
	keys, err := s.redis.ZRange(ctx, "asynq:schedulers", 0, -1).Result() // the lists of schedulers that ended expire
	if err != nil {
		return nil, away(err)
	}
	var all []Periodic
	seen := make(map[string]bool)
	for _, name := range keys {
		entries, err := s.redis.LRange(ctx, name, 0, -1).Result()
		if err != nil {
			return nil, away(err)
		}
		for _, text := range entries {
			e, err := parsePeriodic([]byte(text))
			if err != nil {
				return nil, err
			}
			if id := e.ID(); !seen[id] {
				seen[id] = true
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b Periodic) int { return strings.Compare(a.ID(), b.ID()) })
	return all, nil
}

func parsePeriodic(p []byte) (e Periodic, err error) {
	err = fields(p, func(number protowire.Number, _ uint64, text []byte) error {
		switch number {
		case 2:
			e.Spec = string(text)
		case 3:
			e.Type = string(text)
		case 4:
			e.Payload = append([]byte(nil), text...)
		case 5:
			e.Options = append(e.Options, string(text))
		}
		return nil
	})
	return e, err
}

// ID returns the ID of the schedule that the entry becomes: the type of its task, and a hash of all that
// the entry says. Asynq's own IDs change with each start.
func (e *Periodic) ID() string {
	h := sha256.New()
	for _, part := range append([]string{e.Spec, e.Type, string(e.Payload)}, e.Options...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return "asynq:" + e.Type[:min(len(e.Type), 150)] + ":" + hex.EncodeToString(h.Sum(nil))[:12]
}

// Definition returns the entry as a schedule. The zone is that of the scheduler
// (asynq.SchedulerOpts.Location, which asynq does not store), unless the line names one itself. The
// error is broker.ErrInvalid and says what has no equivalent.
func (e *Periodic) Definition(zone string) (schedule.Definition, error) {
	line := e.Spec
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			zone, line, _ = strings.Cut(rest, " ")
		}
	}
	if strings.HasPrefix(line, "@every ") {
		zone = ""
	}
	d := schedule.Definition{ID: e.ID(), Spec: schedule.Cron(line, zone)}
	if _, err := d.Spec.Next(time.Now(), 1); err != nil {
		return d, err
	}
	options := []jobs.Option{jobs.WithSource(Source)}
	for _, text := range e.Options {
		option, err := e.option(text)
		if err != nil {
			return d, err
		}
		options = append(options, option...)
	}
	d.Task = jobs.NewTask(e.Type, e.Payload, options...)
	return d, nil
}

// uniqueKey returns the unique key that asynq would give such a task, without the queue.
func uniqueKey(typ string, payload []byte) string {
	if payload == nil {
		return typ + ":"
	}
	sum := md5.Sum(payload)
	return typ + ":" + hex.EncodeToString(sum[:])
}

// option parses an option of asynq, as a scheduler stores it.
func (e *Periodic) option(text string) ([]jobs.Option, error) {
	name, value, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	number, notNumber := strconv.Atoi(value)
	span, notSpan := time.ParseDuration(value)
	quoted, notQuoted := strconv.Unquote(value)
	switch {
	case name == "MaxRetry" && notNumber == nil:
		return []jobs.Option{jobs.WithMaxRetries(number)}, nil
	case name == "Queue" && notQuoted == nil:
		return []jobs.Option{jobs.WithQueue(quoted)}, nil
	case name == "Timeout" && notSpan == nil:
		return []jobs.Option{jobs.WithTimeout(span)}, nil
	case name == "Retention" && notSpan == nil:
		return []jobs.Option{jobs.WithRetention(span)}, nil
	case name == "Unique" && notSpan == nil:
		return []jobs.Option{jobs.WithUniqueKey(UniqueKey(uniqueKey(e.Type, e.Payload))), jobs.WithUniqueUntilDone(span)}, nil
	}
	return nil, broker.Invalid("option", "%s of the periodic task %q has no equivalent in a schedule; define it in code", text, e.Type)
}
