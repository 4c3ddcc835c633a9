package asynqdata

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// Store is a Redis in which asynq keeps its tasks.
type Store struct{ redis redis.UniversalClient }

// NewStore returns the store behind a client, which the caller closes.
func NewStore(client redis.UniversalClient) *Store { return &Store{client} }

// Queue is a queue of asynq with the number of its tasks by state.
type Queue struct {
	Name                                string
	Paused                              bool
	Pending, Scheduled, Retry, Archived int64 // Tasks reads these
	Active, Aggregating, Completed      int64 // Tasks does not read these
}

// Queues describes the named queues, or all, sorted by name. The error is
// broker.ErrNotFound if one does not exist.
func (s *Store) Queues(ctx context.Context, names ...string) ([]Queue, error) {
	all, err := s.redis.SMembers(ctx, "asynq:queues").Result()
	if err != nil {
		return nil, away(err)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, broker.About(broker.ErrNotFound, "read asynq's queues", name, "")
		}
	}
	if len(names) > 0 {
		all = names
	}
	slices.Sort(all)
	queues := make([]Queue, 0, len(all))
	for _, name := range slices.Compact(all) {
		q, err := s.queue(ctx, name)
		if err != nil {
			return nil, err
		}
		queues = append(queues, q)
	}
	return queues, nil
}

func (s *Store) queue(ctx context.Context, name string) (Queue, error) {
	q := Queue{Name: name}
	p := s.redis.Pipeline()
	paused := p.Exists(ctx, key(name, "paused"))
	pending, active := p.LLen(ctx, key(name, "pending")), p.LLen(ctx, key(name, "active"))
	counts := make(map[string]*redis.IntCmd)
	for _, set := range []string{"scheduled", "retry", "archived", "completed"} {
		counts[set] = p.ZCard(ctx, key(name, set))
	}
	groups := p.SMembers(ctx, key(name, "groups"))
	if _, err := p.Exec(ctx); err != nil {
		return q, away(err)
	}
	q.Paused, q.Pending, q.Active = paused.Val() > 0, pending.Val(), active.Val()
	q.Scheduled, q.Retry = counts["scheduled"].Val(), counts["retry"].Val()
	q.Archived, q.Completed = counts["archived"].Val(), counts["completed"].Val()
	for _, group := range groups.Val() {
		n, err := s.redis.ZCard(ctx, key(name, "g:"+group)).Result()
		if err != nil {
			return q, away(err)
		}
		q.Aggregating += n
	}
	return q, nil
}

// Servers returns how many servers of asynq are alive.
func (s *Store) Servers(ctx context.Context) (int64, error) {
	n, err := s.redis.ZCount(ctx, "asynq:servers", strconv.FormatInt(time.Now().Unix(), 10), "+inf").Result()
	return n, away(err)
}

// page is how many tasks one step reads.
const page = 500

// Tasks reads the scheduled, retried, pending and archived tasks of a queue as the jobs that they
// become: archived tasks become dead jobs. A task that cannot be read comes with the reason. Pending
// tasks come in their order. Tasks that a server of asynq moves meanwhile can be missed: read again
// until nothing is new. After the sequence, err says whether reading ended early.
func (s *Store) Tasks(ctx context.Context, queue string, err *error) iter.Seq2[broker.NewJob, error] {
	return func(yield func(broker.NewJob, error) bool) {
		for _, set := range []string{"scheduled", "retry"} {
			if !s.fromSet(ctx, queue, set, err, yield) {
				return
			}
		}
		if s.pending(ctx, queue, err, yield) {
			s.fromSet(ctx, queue, "archived", err, yield)
		}
	}
}

// entry is a task in one of a queue's lists.
type entry struct {
	id string
	at time.Time // its score
}

func (s *Store) fromSet(ctx context.Context, queue, set string, failed *error, yield func(broker.NewJob, error) bool) bool {
	seen := make(map[string]bool) // a scan may answer a member twice
	for cursor := uint64(0); ; {
		members, next, err := s.redis.ZScan(ctx, key(queue, set), cursor, "", page).Result()
		if err != nil {
			*failed = away(err)
			return false
		}
		var entries []entry
		for pair := range slices.Chunk(members, 2) {
			score, err := strconv.ParseFloat(pair[len(pair)-1], 64)
			if err == nil && !seen[pair[0]] {
				seen[pair[0]] = true
				entries = append(entries, entry{pair[0], time.Unix(int64(score), 0).UTC()})
			}
		}
		if !s.read(ctx, queue, set, entries, failed, yield) {
			return false
		}
		if cursor = next; cursor == 0 {
			return true
		}
	}
}

// pending reads from the end of the list, where the next task is.
func (s *Store) pending(ctx context.Context, queue string, failed *error, yield func(broker.NewJob, error) bool) bool {
	for last := int64(-1); ; last -= page {
		ids, err := s.redis.LRange(ctx, key(queue, "pending"), last-page+1, last).Result()
		if err != nil {
			*failed = away(err)
			return false
		}
		slices.Reverse(ids)
		entries := make([]entry, len(ids))
		for i, id := range ids {
			entries[i].id = id
		}
		if !s.read(ctx, queue, "pending", entries, failed, yield) {
			return false
		}
		if len(ids) < page {
			return true
		}
	}
}

// read yields the tasks of a list which are still in it.
func (s *Store) read(ctx context.Context, queue, state string, entries []entry, failed *error, yield func(broker.NewJob, error) bool) bool {
	if len(entries) == 0 {
		return true
	}
	p := s.redis.Pipeline()
	hashes := make([]*redis.SliceCmd, len(entries))
	for i, e := range entries {
		hashes[i] = p.HMGet(ctx, key(queue, "t:"+e.id), "msg", "state")
	}
	if _, err := p.Exec(ctx); err != nil {
		*failed = away(err)
		return false
	}
	for i, e := range entries {
		fields := hashes[i].Val()
		msg, there := fields[0].(string)
		if !there || fields[1] != state { // it has moved to another list, and is found there
			continue
		}
		m, err := ParseMessage([]byte(msg))
		job := broker.NewJob{Queue: queue, ID: e.id}
		if err == nil {
			job = m.restored(state, e.at)
		}
		if !yield(job, err) {
			return false
		}
	}
	return true
}

// restored returns the job of a task in a state. Asynq keeps no creation time, so the job gets the time
// of its import.
func (m *Message) restored(state string, at time.Time) broker.NewJob {
	job := m.NewJob()
	job.Restore = &broker.Restored{State: broker.StatePending, Head: broker.Head{Failures: m.Retried, Deliveries: m.Retried}}
	head := &job.Restore.Head
	switch state {
	case "scheduled":
		job.Restore.State, job.RunAt = broker.StateScheduled, at
	case "retry":
		job.Restore.State, job.RunAt = broker.StateRetry, at
	case "archived":
		job.Restore.State, head.FinishedAt, head.Reason = broker.StateDead, at, broker.ReasonSkipRetry
		if m.LastFailedAt > 0 { // the last failure is not counted as a retry
			head.Failures, head.Deliveries = m.Retried+1, m.Retried+1
		}
		if m.Retried >= m.MaxRetry {
			head.Reason = broker.ReasonRetries
		}
	}
	if m.LastFailedAt > 0 {
		failure := broker.Failure{At: time.Unix(m.LastFailedAt, 0).UTC(), Attempt: max(head.Failures-1, 0), Message: m.LastError}
		dropped := max(head.Failures-1, 0) // asynq keeps only the last error
		head.Errors = broker.ErrorLog{Dropped: dropped}.With(failure, 0)
	}
	return job
}

// key returns the name of a key of a queue.
func key(queue, name string) string { return "asynq:{" + queue + "}:" + name }

// away adds to an error that asynq's Redis cannot be read.
func away(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("asynq's Redis cannot be read: %w", err)
}
