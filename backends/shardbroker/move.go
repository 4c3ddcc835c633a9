package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// quietTime is how long before the switch a job whose shard changes is refused, if it has a
// key or may be a duplicate. It must be longer than any call takes, and than the clocks of
// the shards differ.
const quietTime = 10 * time.Second

// A probe is a job that holds an ID and a unique key in the old shard while the job
// itself is stored in the new one.
const (
	probeType  = "shard-move"
	probeDelay = broker.MaxDelay / 2
	probeTime  = time.Minute // then the probe of a process that died frees its unique key, and Prune deletes it
	probeStep  = 20 * time.Millisecond
	tidyTime   = time.Second
)

// target returns the shard for a new job. It reports careful instead if follow has to decide:
// the switch changes the job's shard, and the old shard may have its key, its unique key or
// its ID.
func (b *Broker) target(label uint64, j *broker.NewJob, now time.Time) (s *shard, careful bool) {
	of := b.routes.of(label)
	if len(of) == 1 {
		return of[0], false
	}
	alone := j.FirstSend && j.Body.Key == "" && j.Body.Unique.Key == "" && j.Restore == nil
	switch {
	case now.Before(b.routes.at.Add(-quietTime)):
		return of[1], false
	case !alone:
		return nil, true
	case now.Before(b.routes.at):
		return of[1], false
	}
	return of[0], false
}

// follow stores a job whose shard changed: in the old shard while that one has jobs of the
// same key, or a holder of the unique key that the job may replace or wait for, otherwise in the
// new shard. Meanwhile a probe in the old shard holds the job's ID and unique key.
func (b *Broker) follow(ctx context.Context, j *broker.NewJob, sent, now time.Time) broker.Receipt {
	refused := func(err error) broker.Receipt { return refusal(j, err) }
	if err := j.Check(b.limits); err != nil {
		return refused(err)
	}
	if err := ctx.Err(); err != nil { // the calls for earlier jobs took all the time; no shard is to blame
		return refused(fmt.Errorf("%w: %w", broker.ErrUnavailable, err))
	}
	if now.Before(b.routes.at) {
		hint := fmt.Sprintf("its shard changes at %s; try again then", b.routes.at.Format(time.RFC3339))
		return refused(&broker.Error{Err: broker.ErrUnavailable, Hint: hint})
	}
	of := b.routes.of(label(j.ID, &j.Body))
	home, former := of[0], of[1]
	for _, s := range of {
		if err := s.hangs(); err != nil {
			return refused(err)
		}
	}
	m := &mover{b: b, sent: sent, former: former, job: j}
	keyed := j.Body.Key != "" && !b.limits.NoFlow && !broker.Reserved(j.Queue) // where a key only finds jobs, which may never end
	if keyed || j.TakesKey() {
		lock, err := m.lock(ctx)
		if err != nil {
			return refused(err)
		}
		defer lock.drop(ctx)
	}
	if keyed {
		if busy, err := m.busy(ctx); err != nil {
			return refused(err)
		} else if busy {
			return m.store(ctx, former, *j)
		}
	}
	r := m.probe(ctx)
	switch {
	case errors.Is(r.Err, broker.ErrDuplicate) && j.Meets() && !keyed: // a keyed job would leave the order of its key
		return m.store(ctx, former, *j)
	case r.Err != nil:
		return r
	}
	r = m.store(ctx, home, *j)
	refs := []broker.Ref{{Queue: j.Queue, ID: j.ID, Epoch: broker.AnyEpoch}}
	ctx, cancel := tidying(ctx)
	defer cancel()
	_, _ = former.Broker.Operate(ctx, broker.Operation{Now: sent, Kind: broker.OpDelete, Refs: refs})
	return r
}

// tidying returns a context for the last call of an enqueue, which is worth making even if the caller has gone. If a
// shard hangs, what is left ends by itself, and the caller must not wait for it.
func tidying(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
}

// mover stores one job whose shard changed.
type mover struct {
	b      *Broker
	sent   time.Time // Now of the request
	former *shard
	job    *broker.NewJob
}

func (m *mover) store(ctx context.Context, s *shard, j broker.NewJob) broker.Receipt {
	got, err := s.Broker.Enqueue(ctx, broker.EnqueueRequest{Now: m.sent, Jobs: []broker.NewJob{j}})
	if err = s.note(ctx, err); err != nil || len(got) == 0 {
		return broker.Receipt{Queue: j.Queue, ID: j.ID, Err: err}
	}
	return got[0]
}

// lock takes a mark in the old shard, so that no other process adds jobs of the key, or of the
// unique key, between busy or probe and the enqueue of the new job.
func (m *mover) lock(ctx context.Context) (*lock, error) {
	mark := func(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
		got, err := m.former.Broker.Mark(ctx, req)
		return got, m.former.note(ctx, err)
	}
	return m.b.lock(ctx, mark, fmt.Sprintf("%s %016x", probeType, label("", &m.job.Body)), m.sent)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, ctx.Err())
	case <-time.After(probeStep):
		return nil
	}
}

// busy reports whether the old shard has jobs of the key that have not ended, or a head of
// the key, which the key's other jobs must follow.
func (m *mover) busy(ctx context.Context) (bool, error) {
	got, err := m.former.Broker.Keys(ctx, broker.KeysRequest{Now: m.sent, Queue: m.job.Queue, Names: []string{m.job.Body.Key}})
	if err != nil || len(got.Keys) == 0 {
		return false, m.former.note(ctx, err)
	}
	k := got.Keys[0]
	return k.Depth+k.Active > 0 || k.Head != "", nil
}

// probe stores a probe with the ID and the unique key of the job in the old shard. It is
// never due, and leaves no remembered ID when it is deleted. The receipt has the error of a
// duplicate or of the store, if any; the holder of a duplicate is no probe.
func (m *mover) probe(ctx context.Context) broker.Receipt {
	b := &m.job.Body
	probe := broker.NewJob{Queue: m.job.Queue, ID: m.job.ID, Delay: probeDelay,
		Body: broker.Body{Type: probeType, Priority: broker.PriorityNormal}}
	if b.Key != "" { // an ordered queue needs one; not that of the job, which would look busy, nor one for all, which would have a depth
		probe.Body.Key = fmt.Sprintf("%s%s %016x", broker.ReservedPrefix, probeType, hash(m.job.ID))
	}
	if b.Unique.Key != "" && m.job.TakesKey() {
		probe.Body.Unique = broker.Unique{Key: b.Unique.Key, TTL: probeTime}
	}
	for {
		r := m.store(ctx, m.former, probe)
		if !errors.Is(r.Err, broker.ErrDuplicate) {
			return r
		}
		page, err := m.former.Broker.Find(ctx, broker.Query{Now: m.sent, Queue: m.job.Queue, IDs: []string{r.Holder}})
		if err != nil {
			r.Err = err
			return r
		}
		switch {
		case len(page.Jobs) == 0 || page.Jobs[0].Type != probeType:
			return r
		case r.Holder == m.job.ID: // an earlier call left it: the new shard knows whether the job was stored
			return broker.Receipt{}
		}
		if err := pause(ctx); err != nil {
			return broker.Receipt{Queue: m.job.Queue, ID: m.job.ID, Err: err}
		}
	}
}

// pruneProbes deletes the probes of processes that died.
func (b *Broker) pruneProbes(ctx context.Context, req broker.PruneRequest) error {
	var errs []error
	now := req.Now
	if now.IsZero() {
		now = b.now(ctx)
	}
	for _, s := range b.routes.former {
		for _, queue := range req.Queues {
			q := broker.Query{Now: req.Now, Queue: queue, State: broker.StateScheduled, After: now.Add(probeDelay - planTime),
				Type: probeType, NoPayload: true, Limit: 1000} // the oldest come first, and few other jobs are due so late
			page, err := s.Broker.Find(ctx, q)
			op := broker.Operation{Now: req.Now, Kind: broker.OpDelete}
			for i := range page.Jobs {
				if j := &page.Jobs[i]; page.Now.Sub(j.CreatedAt) > probeTime {
					op.Refs = append(op.Refs, j.Ref())
				}
			}
			if err == nil && len(op.Refs) > 0 {
				_, err = s.Broker.Operate(ctx, op)
			}
			errs = append(errs, s.note(ctx, err))
		}
	}
	return errors.Join(errs...)
}

// Left returns how many jobs each shard with an Until still has, by the name of the shard. A
// shard without jobs may be removed. Then the IDs given by callers and the unique windows that
// it remembers are forgotten.
func (b *Broker) Left(ctx context.Context) (map[string]int64, error) {
	left := make(map[string]int64)
	for _, s := range b.shards {
		if s.Until.IsZero() {
			continue
		}
		info, err := s.Broker.Queues(ctx, broker.QueuesRequest{})
		if err != nil {
			return left, s.note(ctx, err)
		}
		left[s.Name] = 0
		for _, q := range info.Queues {
			left[s.Name] += total(q.Counts)
		}
	}
	return left, nil
}
