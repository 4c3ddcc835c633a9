package redisbroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// Prune removes up to Max lapsed things per queue, and some lapsed marks, in
// one round trip. §23.
func (b *Broker) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	if err := req.Check(); err != nil {
		return broker.Pruned{}, err
	}
	names := distinct(req.Queues)
	steps := make([]*step, 0, len(names)+1)
	for _, name := range names {
		steps = append(steps, &step{script: pruneScript, queues: []string{name}, now: nowArg(req.Now), args: []any{min(req.Max, callJobs)}})
	}
	steps = append(steps, b.pruneMarks(req.Now, min(req.Max, callJobs)))
	if err := b.run(ctx, nil, steps...); err != nil {
		return broker.Pruned{}, broker.About(err, "prune", "", "")
	}
	var got broker.Pruned
	var errs []error
	for i, s := range steps {
		switch {
		case s.err != nil && i < len(names):
			errs = append(errs, broker.About(s.err, "prune", names[i], ""))
		case s.err != nil:
			errs = append(errs, broker.About(s.err, "prune", "", ""))
		case s.script == markScript && len(s.reply) >= 2:
			got.Other += int(number(s.reply[0]))
			got.More = got.More || number(s.reply[1]) == 1
		case s.code == codeDone && len(s.reply) >= 5:
			got.Completed += int(number(s.reply[0]))
			got.Cancelled += int(number(s.reply[1]))
			got.Dead += int(number(s.reply[2]))
			got.Other += int(number(s.reply[3]))
			got.More = got.More || number(s.reply[4]) == 1
		}
	}
	return got, errors.Join(errs...)
}
