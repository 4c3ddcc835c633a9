package redisbroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// Renew registers a worker or extends its leases: one small script call for
// each queue, in one round trip. When a queue has ended the worker, the others
// may have renewed it all the same. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	if err := req.Check(); err != nil {
		return broker.Renewed{}, err
	}
	register, info := 0, []byte(nil)
	if req.Register {
		register = 1
	}
	if req.Register || req.Describe {
		info = broker.AppendWorkerInfo(nil, &req.Info)
	}
	names := distinct(req.Queues)
	steps := make([]*step, len(names))
	for i, name := range names {
		steps[i] = &step{script: renewScript, queues: []string{name}, create: req.Register, now: nowArg(req.Now),
			args: []any{req.Worker, broker.DurationMicros(req.Lease), register, info}}
	}
	if err := b.run(ctx, nil, steps...); err != nil {
		return broker.Renewed{}, broker.About(err, "renew", "", "")
	}
	got := broker.Renewed{Held: make(map[string]int, len(names))}
	var errs []error
	for i, name := range names {
		s := steps[i]
		switch {
		case s.err != nil:
			errs = append(errs, broker.About(s.err, "renew", name, ""))
		case s.code != codeDone || len(s.reply) < 2:
			got.Lost = true
		default:
			got.Now = later(got.Now, moment(s.at))
			got.Held[name] = int(number(s.reply[0]))
			if lapse := moment(number(s.reply[1])); got.NextLapse.IsZero() || lapse.Before(got.NextLapse) {
				got.NextLapse = lapse
			}
			for asked := s.reply[2:]; len(asked) >= 2; asked = asked[2:] {
				got.Cancel = append(got.Cancel, broker.Ref{Queue: name, ID: text(asked[0]), Epoch: number(asked[1])})
			}
		}
	}
	return got, errors.Join(errs...)
}
