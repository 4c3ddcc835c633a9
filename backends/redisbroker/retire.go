package redisbroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// Retire releases a worker's jobs and ends its ID. It also ends an ID that never
// registered, since its registration may still be under way. The released jobs are
// in the order of their IDs. Retire takes one round trip for each thousand active
// jobs in the queue that has the most. §12.
func (b *Broker) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	if err := req.Check(); err != nil {
		return broker.Retired{}, err
	}
	var got broker.Retired
	var errs []error
	pending := make([]*step, 0, len(req.Queues))
	for _, name := range distinct(req.Queues) {
		pending = append(pending, b.retireStep(&req, name, "0"))
	}
	honest := func(err error) error { return err }
	for ; len(pending) > 0; honest = partly {
		if err := b.run(ctx, nil, pending...); err != nil {
			return got, broker.About(honest(err), "retire", "", "")
		}
		var again []*step
		for _, s := range pending {
			name := s.queues[0]
			if s.err != nil {
				errs = append(errs, broker.About(honest(s.err), "retire", name, ""))
				continue
			}
			if s.code != codeDone || len(s.reply) == 0 {
				continue // the queue does not exist
			}
			for jobs := s.reply[1:]; len(jobs) >= 2; jobs = jobs[2:] {
				got.Released = append(got.Released, broker.Ref{Queue: name, ID: text(jobs[0]), Epoch: number(jobs[1])})
			}
			if cursor := text(s.reply[0]); cursor != "0" {
				again = append(again, b.retireStep(&req, name, cursor))
			}
		}
		pending = again
	}
	return got, errors.Join(errs...)
}

func (b *Broker) retireStep(req *broker.RetireRequest, name, cursor string) *step {
	return &step{script: retireScript, queues: []string{name}, now: nowArg(req.Now),
		args: []any{req.Worker, cursor, b.channel(name)}}
}
