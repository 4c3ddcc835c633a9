package history

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Deploy records that servers began to run a version of a program that none ran a minute before.
type Deploy struct {
	At      time.Time `json:"at"`
	Program string    `json:"program"`          // name and version
	Queues  []string  `json:"queues,omitempty"` // that the servers serve; empty if there are many
}

// Serves reports whether the program serves a queue. It is true if the queues are not known.
func (d *Deploy) Serves(queue string) bool {
	return len(d.Queues) == 0 || slices.Contains(d.Queues, queue)
}

// deploys is the stored form: the newest deploys, and the programs that ran at the last check.
type deploys struct {
	Running []string `json:"running"`
	Deploys []Deploy `json:"deploys"`
}

const (
	deploysMark = "history/deploys"
	maxDeploys  = 100 // enough for a few deploys a day for weeks, and the value stays small
	maxServed   = 20  // queues of a deploy; a program that serves more counts for all queues
	maxPrograms = 200 // at a time; with more programs no deploys are recorded
)

// record stores the programs that appeared since the last check. If the same programs run, it reads
// and writes nothing.
func (k *Keeper) record(ctx context.Context, reply *broker.QueuesReply) error {
	served := make(map[string][]string)
	for i := range reply.Queues {
		for _, w := range reply.Queues[i].Workers {
			if name := w.Program; name != "" && w.Alive(reply.Now) && !slices.Contains(served[name], reply.Queues[i].Name) {
				served[name] = append(served[name], reply.Queues[i].Name)
			}
		}
	}
	running := make([]string, 0, len(served))
	for name := range served {
		running = append(running, name)
	}
	slices.Sort(running)
	if len(running) == 0 || len(running) > maxPrograms || slices.Equal(running, k.running) {
		return nil
	}
	ttl := hours.keep
	got, err := k.store.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: deploysMark, Owner: owner, TTL: ttl})
	if err != nil || !got.Held {
		return err
	}
	known := parseDeploys(got.Value)
	changed := !slices.Equal(known.Running, running)
	for _, name := range running {
		if slices.Contains(known.Running, name) {
			continue
		}
		d := Deploy{At: reply.Now.UTC(), Program: name, Queues: served[name]}
		if len(d.Queues) > maxServed {
			d.Queues = nil
		}
		known.Deploys = append(known.Deploys, d)
	}
	known.Deploys = known.Deploys[max(0, len(known.Deploys)-maxDeploys):]
	known.Running = running
	if changed {
		value, err := json.Marshal(known)
		if err == nil {
			_, err = k.store.Mark(ctx, broker.MarkRequest{Action: broker.MarkSet, Name: deploysMark, Owner: owner, Fence: got.Fence,
				TTL: ttl, Value: value})
		}
		if err != nil {
			return err
		}
	}
	k.running = running
	return nil
}

// parseDeploys parses a stored value. It returns no deploys if the value cannot be read.
func parseDeploys(value []byte) (d deploys) {
	if json.Unmarshal(value, &d) != nil {
		return deploys{}
	}
	return d
}

// ReadDeploys returns the deploys since a time, oldest first, of programs that serve a queue, or of
// all programs if the queue is empty.
func ReadDeploys(ctx context.Context, m marker, queue string, since time.Time) ([]Deploy, error) {
	got, err := m.Mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: deploysMark})
	if err != nil || !got.Held {
		return nil, err
	}
	found := slices.DeleteFunc(parseDeploys(got.Value).Deploys, func(d Deploy) bool {
		return d.At.Before(since) || queue != "" && !d.Serves(queue)
	})
	slices.SortStableFunc(found, func(a, b Deploy) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
	return found, nil
}
