package redisbroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// Retire releases what a worker holds and ends its ID, also where it never
// registered: its registration may still be under way. The order among the
// jobs released is that of their IDs. One round trip for each thousand active
// jobs of the fullest queue. §12.
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
	for len(pending) > 0 {
		if err := b.run(ctx, nil, pending...); err != nil {
			return got, broker.About(err, "retire", "", "")
		}
		var again []*step
		for _, s := range pending {
			name := s.queues[0]
			if s.err != nil {
				errs = append(errs, broker.About(s.err, "retire", name, ""))
				continue
			}
			if s.code != codeDone || len(s.reply) == 0 {
				continue // no such queue
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
		args: []any{req.Worker, cursor, b.queue(name).channel()}}
}
