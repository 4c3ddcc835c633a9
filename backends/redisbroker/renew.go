package redisbroker

import (
	"context"
	"errors"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// extended is how many queues one call extends a worker in, which has some hundreds of
// keys then, and takes the server a fifth of a millisecond.
const extended = 100

// Renew registers a worker or extends its leases. A registration is one small script call
// for each queue, in one round trip. What follows mostly has nothing to tell: then one
// call serves many queues, in a Cluster one each. When a queue has ended the worker, the
// others may have renewed it all the same. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	if err := req.Check(); err != nil {
		return broker.Renewed{}, err
	}
	names := distinct(req.Queues)
	r := renewal{req: &req, got: broker.Renewed{Held: make(map[string]int, len(names))}}
	err := b.usable(ctx)
	if err == nil && !req.Register && !req.Describe {
		names, err = r.extend(ctx, b, names)
	}
	if err == nil && len(names) > 0 {
		err = r.renew(ctx, b, names)
	}
	if err != nil {
		return broker.Renewed{}, broker.About(err, "renew", "", "")
	}
	return r.got, errors.Join(r.errs...)
}

// renewal is a call of Renew under way.
type renewal struct {
	req  *broker.RenewRequest
	got  broker.Renewed
	errs []error
}

// extend renews the worker in queues where nothing has to be told, and returns the others.
func (r *renewal) extend(ctx context.Context, b *Broker, names []string) (others []string, err error) {
	most := extended
	if b.store.cluster != nil {
		most = 1
	}
	var steps []*step
	for some := range slices.Chunk(names, most) {
		steps = append(steps, &step{script: extendScript, queues: some, now: nowArg(r.req.Now),
			args: []any{r.req.Worker, broker.DurationMicros(r.req.Lease)}})
	}
	if err := b.run(ctx, nil, steps...); err != nil {
		return nil, err
	}
	for _, s := range steps {
		switch {
		case errors.Is(s.err, broker.ErrUnavailable):
			r.errs = append(r.errs, broker.About(s.err, "renew", s.queues[0], ""))
			continue
		case s.err != nil || len(s.reply) != 1+len(s.queues): // by the fault of one of them
			others = append(others, s.queues...)
			continue
		}
		for i, name := range s.queues {
			held := number(s.reply[1+i])
			if held < 0 {
				others = append(others, name)
				continue
			}
			r.got.Held[name] = int(held)
			r.tell(s.at, number(s.reply[0]))
		}
	}
	return others, nil
}

// tell notes the store's time, and when leases run out.
func (r *renewal) tell(now, lapse int64) {
	r.got.Now = later(r.got.Now, moment(now))
	r.got.NextLapse = sooner(r.got.NextLapse, moment(lapse))
}

// renew asks each queue for itself.
func (r *renewal) renew(ctx context.Context, b *Broker, names []string) error {
	register, info := 0, []byte(nil)
	if r.req.Register {
		register = 1
	}
	if r.req.Register || r.req.Describe {
		info = broker.AppendWorkerInfo(nil, &r.req.Info)
	}
	steps := make([]*step, len(names))
	for i, name := range names {
		steps[i] = &step{script: renewScript, queues: []string{name}, create: r.req.Register, now: nowArg(r.req.Now),
			args: []any{r.req.Worker, broker.DurationMicros(r.req.Lease), register, info}}
	}
	if err := b.run(ctx, nil, steps...); err != nil {
		return err
	}
	for i, name := range names {
		s := steps[i]
		switch {
		case s.err != nil:
			r.errs = append(r.errs, broker.About(s.err, "renew", name, ""))
		case s.code != codeDone || len(s.reply) < 2:
			r.got.Lost = true
		default:
			r.got.Held[name] = int(number(s.reply[0]))
			r.tell(s.at, number(s.reply[1]))
			for asked := s.reply[2:]; len(asked) >= 2; asked = asked[2:] {
				r.got.Cancel = append(r.got.Cancel, broker.Ref{Queue: name, ID: text(asked[0]), Epoch: number(asked[1])})
			}
		}
	}
	return nil
}
