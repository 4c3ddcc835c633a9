package redisbroker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// queuesCall is how many queues are described in one round trip, so that its answer is not too long.
const queuesCall = 500

// Queues describes queues: one small script call for each, many of them in one
// round trip. §23.
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	names := slices.Clone(req.Names)
	if len(names) == 0 {
		var err error
		if names, err = b.names(ctx); err != nil {
			return broker.QueuesReply{}, broker.About(err, "queues", "", "")
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	reply := broker.QueuesReply{Now: req.Now}
	var errs []error
	for part := range slices.Chunk(names, queuesCall) {
		steps := make([]*step, 0, len(part))
		for _, name := range part {
			args := append([]any{req.Workers, len(totalNames) + 1}, totalNames...)
			args = append(append(args, "bytes"), ruleNames...)
			steps = append(steps, &step{script: queuesScript, queues: []string{name}, now: nowArg(req.Now), args: args})
		}
		if err := b.run(ctx, nil, steps...); err != nil {
			return broker.QueuesReply{}, broker.About(err, "queues", "", "")
		}
		for i, s := range steps {
			if s.err != nil {
				errs = append(errs, broker.About(s.err, "queues", part[i], ""))
			} else if s.code == codeDone && len(s.reply) >= describedFields {
				reply.Now = later(reply.Now, moment(s.at))
				reply.Queues = append(reply.Queues, described(part[i], s))
			}
		}
	}
	if len(names) == 0 {
		return reply, broker.About(b.usable(ctx), "queues", "", "")
	}
	return reply, errors.Join(errs...)
}

// names lists every queue.
func (b *Broker) names(ctx context.Context) ([]string, error) {
	var names []string
	err := b.do(ctx, "smembers", b.listKey(), func(c *call) error {
		var err error
		names, err = c.cmd.StringSlice()
		return err
	})
	return names, err
}

// describedFields is how many fields queues.lua answers before those of workers: counts, the count of
// suppressed jobs, creation times of pending jobs, times of states, the value of the key plain, totals,
// bytes, and the policy.
var describedFields = 8 + 1 + broker.Priorities + 5 + 1 + len(totalNames) + 1 + len(ruleNames)

// plainJob says how lib/sums.lua counts a job in the key plain: it adds 1<<plainJob and the job's bytes.
const plainJob = 33

// totalNames are the fields of a queue's record that count what happened, in the order
// of totalsOf. The names completed, dead and cancelled are used for sets, so these totals
// are called done, died and dropped.
var totalNames = []any{"enqueued", "claimed", "done", "failed", "retried", "died", "crashed", "dropped", "expired", "waits", "waited",
	"runs", "ran"}

func totalsOf(fields []any) (t broker.Totals) {
	for i, to := range t.Numbers() {
		*to = numeral(fields[i]) // sent as text, since Lua would round large numbers
	}
	return t
}

// described reads what queues.lua answers about a queue.
func described(name string, s *step) broker.QueueInfo {
	info := broker.QueueInfo{Name: name, Counts: make(map[broker.State]int64), Oldest: make(map[broker.State]time.Time), AsOf: moment(s.at)}
	counted := []broker.State{broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry,
		broker.StateCompleted, broker.StateDead, broker.StateCancelled, broker.StateWaiting}
	for i, state := range counted {
		info.Counts[state] = number(s.reply[i])
	}
	info.Suppressed = number(s.reply[len(counted)])
	rest := s.reply[len(counted)+1:]
	for i := range broker.Priorities {
		if created := createdIn(text(rest[i])); !created.IsZero() {
			info.SetOldestPending(broker.Priority(i+1), created)
		}
	}
	rest = rest[broker.Priorities:]
	timed := []broker.State{broker.StateScheduled, broker.StateRetry, broker.StateCompleted, broker.StateDead, broker.StateCancelled}
	for i, state := range timed {
		if at := moment(number(rest[i])); !at.IsZero() {
			info.Oldest[state] = at
		}
	}
	rest = rest[len(timed):]
	info.Totals = totalsOf(rest[1:])
	sum := numeral(rest[0])
	info.Totals.Enqueued += sum >> plainJob
	info.Bytes = numeral(rest[1+len(totalNames)]) + sum&(1<<plainJob-1)
	rest = rest[1+len(totalNames)+1:]
	info.Policy = policyOf(rest)
	for list := rest[len(ruleNames):]; len(list) >= 4; list = list[4:] {
		id, until, held := text(list[0]), moment(number(list[1])), int(number(list[3]))
		w, err := broker.ParseWorkerInfo([]byte(text(list[2])), id, until, held)
		if err != nil { // a newer version wrote it: return at least what the store knows
			w = broker.WorkerInfo{ID: id, Until: until, Held: held}
		}
		info.Workers = append(info.Workers, w)
	}
	slices.SortFunc(info.Workers, func(a, b broker.WorkerInfo) int { return strings.Compare(a.ID, b.ID) })
	return info
}
