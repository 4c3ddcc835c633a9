package shardbroker

import (
	"context"
	"errors"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Operate asks the shard of each ID, and then the other shards for the jobs that it does
// not have. §22, §27, §28.
func (b *Broker) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	if err := op.Check(b.limits); err != nil {
		return nil, err
	}
	if op.Kind == broker.OpRemoveQueue {
		return b.removeQueues(ctx, op)
	}
	if len(op.Refs) == 0 {
		return b.shards[0].Broker.Operate(ctx, op)
	}
	ids := make([]string, len(op.Refs))
	for i, ref := range op.Refs {
		ids[i] = ref.ID
	}
	results := make([]broker.OperationResult, len(op.Refs))
	known := 0
	var errs []error
	err := b.seek(func(round map[*shard][]int, shards []*shard) (left []int, err error) {
		answers := ask(ctx, shards, func(s *shard) ([]broker.OperationResult, error) {
			own := op
			own.Refs = make([]broker.Ref, 0, len(round[s]))
			for _, i := range round[s] {
				own.Refs = append(own.Refs, op.Refs[i])
			}
			return s.Broker.Operate(ctx, own)
		})
		for _, a := range answers {
			if a.err == nil {
				known++
			}
			errs = append(errs, a.err)
			for n, i := range round[a.of] {
				r := broker.OperationResult{Ref: op.Refs[i], Err: a.err}
				if a.err == nil {
					r = a.got[n]
				}
				if results[i].Ref.ID == "" || results[i].Err != nil && (r.Err == nil || errors.Is(results[i].Err, broker.ErrNotFound)) {
					results[i] = r
				}
			}
		}
		for i := range results {
			if e := results[i].Err; errors.Is(e, broker.ErrNotFound) || broker.StoreFailed(e) && e != nil {
				left = append(left, i)
			}
		}
		return left, failed(answers)
	}, ids)
	if err != nil && (known == 0 || !broker.StoreFailed(err)) {
		return nil, errors.Join(errs...)
	}
	return results, nil
}

// removeQueues removes each queue from all shards, unless a shard has jobs or a worker of the
// queue.
func (b *Broker) removeQueues(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	results := make([]broker.OperationResult, len(op.Refs))
	for i, ref := range op.Refs {
		r, err := b.removeQueue(ctx, op, ref)
		if err != nil {
			if len(op.Refs) == 1 {
				return nil, err
			}
			r = broker.OperationResult{Ref: ref, Err: broker.About(err, op.Kind.String(), ref.Queue, "")}
		}
		results[i] = r
	}
	return results, nil
}

func (b *Broker) removeQueue(ctx context.Context, op broker.Operation, ref broker.Ref) (broker.OperationResult, error) {
	op.Refs = []broker.Ref{ref}
	if ref.ID == "" {
		info, err := b.Queues(ctx, broker.QueuesRequest{Now: op.Now, Names: []string{ref.Queue}, Workers: true})
		if err != nil {
			return broker.OperationResult{}, err
		}
		for _, q := range info.Queues {
			q.Workers = slices.DeleteFunc(q.Workers, func(w broker.WorkerInfo) bool { return !w.Alive(info.Now) })
			if len(q.Workers) > 0 || total(q.Counts) > 0 {
				err := broker.About(broker.QueueInUse(q), op.Kind.String(), ref.Queue, "")
				return broker.OperationResult{Ref: ref, Err: err}, nil
			}
		}
	}
	answers := ask(ctx, b.shards, func(s *shard) (broker.OperationResult, error) {
		got, err := s.Broker.Operate(ctx, op)
		if err != nil {
			return broker.OperationResult{}, err
		}
		return got[0], nil
	})
	if err := failed(answers); err != nil {
		return broker.OperationResult{}, begun(some(answers), err)
	}
	all := answers[0].got
	for _, a := range answers[1:] {
		if all.Err == nil && a.got.Err != nil && !errors.Is(a.got.Err, broker.ErrNotFound) || errors.Is(all.Err, broker.ErrNotFound) {
			all = a.got
		}
	}
	return all, nil
}

func total(counts map[broker.State]int64) (n int64) {
	for _, count := range counts {
		n += count
	}
	return n
}
