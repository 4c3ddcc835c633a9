package redisbroker

import (
	"context"
	"errors"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Renew registers a worker or extends its leases. A registration takes a script call for each group
// of queues, and one for each queue that must be created. After that, one call extends the leases in
// all queues; in a Cluster, one call for each group. Renew counts leases in queues where a call of
// this process may have changed their number, and every three minutes in all queues. If a queue has
// ended the worker, the worker may have been renewed in other queues. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	if err := req.Check(); err != nil {
		return broker.Renewed{}, err
	}
	r := renewal{Broker: b, req: &req, got: broker.Renewed{Held: make(map[string]int, len(req.Queues))}}
	err := b.usable(ctx)
	if err == nil {
		err = r.run(ctx, distinct(req.Queues))
	}
	if err != nil || len(r.errs) > 0 || r.got.Lost {
		b.members.forget(req.Worker)
	}
	if err != nil {
		return broker.Renewed{}, broker.About(err, "renew", "", "")
	}
	return r.got, errors.Join(r.errs...)
}

// renewal is a call of Renew under way.
type renewal struct {
	*Broker
	req  *broker.RenewRequest
	got  broker.Renewed
	errs []error
	sent int // round trips
}

// send makes the calls of one round trip.
func (r *renewal) send(ctx context.Context, steps ...*step) error {
	r.sent++
	return r.honest(r.Broker.run(ctx, nil, steps...))
}

// honest makes errors leave open whether the renewal took effect, after an earlier round trip has
// extended leases.
func (r *renewal) honest(err error) error {
	if r.sent > 1 {
		return partly(err)
	}
	return err
}

// fail adds the error of a queue.
func (r *renewal) fail(queue string, err error) {
	r.errs = append(r.errs, broker.About(r.honest(err), "renew", queue, ""))
}

func (r *renewal) run(ctx context.Context, names []string) error {
	changed, all := r.members.toCount(r.req.Worker, names, r.req.Lease)
	groups := groupsOf(names)
	var err error
	switch {
	case all || r.req.Register || r.req.Describe:
		all = true
		err = r.extend(ctx, groups, extendAndLook)
	default:
		err = r.renewGroups(ctx, groups, changed)
	}
	if err == nil && len(r.errs) == 0 && !r.got.Lost {
		r.members.count(r.req, names, r.got.Held, all)
	}
	return err
}

// renewGroups extends the worker's leases in whole groups, and counts them in some queues.
func (r *renewal) renewGroups(ctx context.Context, groups [][]string, count []string) error {
	calls := [][][]string{groups}
	if r.store.cluster != nil {
		calls = slices.Collect(slices.Chunk(groups, 1))
	}
	var renew []*step
	for _, some := range calls {
		s := &step{script: renewScript, now: nowArg(r.req.Now), args: []any{r.req.Worker, broker.DurationMicros(r.req.Lease)}}
		for _, names := range some {
			s.queues = append(s.queues, names[0])
			s.args = append(s.args, r.members.searchedAll(r.req.Worker, names))
		}
		renew = append(renew, s)
	}
	extend := r.extendSteps(groupsOf(count), countOnly)
	if err := r.send(ctx, append(renew, extend...)...); err != nil {
		return err
	}
	var news []string
	for i, s := range renew {
		if s.err == nil && len(s.reply) != len(calls[i]) {
			s.err = broker.ErrMalformed
		}
		if s.err != nil {
			r.fail(s.queues[0], s.err)
			continue
		}
		for n, names := range calls[i] {
			if lapse := number(s.reply[n]); lapse < 0 {
				news = append(news, names...)
			} else {
				r.note(s.at, lapse)
			}
		}
	}
	news = append(news, r.readExtend(extend)...)
	if groups = with(groups, news); len(groups) == 0 || len(r.errs) > 0 {
		return nil
	}
	return r.extend(ctx, groups, extendGroup)
}

// with returns the groups that have at least one of some queues.
func with(groups [][]string, some []string) (list [][]string) {
	for _, names := range groups {
		if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(some, name) }) {
			list = append(list, names)
		}
	}
	return list
}

// groupsOf divides queues into those that share a hash tag.
func groupsOf(names []string) [][]string {
	var of [queueGroups][]string
	for _, name := range names {
		of[groupOf(name)] = append(of[groupOf(name)], name)
	}
	return slices.DeleteFunc(of[:], func(names []string) bool { return len(names) == 0 })
}

// extend registers the worker if necessary, extends its leases in all queues of some groups, and
// counts them. To register, it first creates queues that do not exist. Finally it asks the queues
// that have news.
func (r *renewal) extend(ctx context.Context, groups [][]string, all int) error {
	news, err := r.extendAll(ctx, groups, all)
	if err == nil && r.req.Register && len(news) > 0 {
		if err = r.make(ctx, news); err == nil {
			news, err = r.extendAll(ctx, with(groups, news), all)
		}
	}
	if err != nil || len(news) == 0 {
		return err
	}
	steps := r.registerSteps(news)
	if err := r.send(ctx, steps...); err != nil {
		return err
	}
	r.readRegister(steps)
	return nil
}

// make creates queues that do not exist. If that fails, the next call to such a queue returns the error.
func (r *renewal) make(ctx context.Context, names []string) error {
	r.sent++
	return r.honest(r.within(ctx, func(ctx context.Context) error {
		r.create(ctx, names)
		return nil
	}))
}

// extendAll extends the leases in all queues of some groups. It returns the queues that have news.
func (r *renewal) extendAll(ctx context.Context, groups [][]string, all int) (news []string, err error) {
	steps := r.extendSteps(groups, all)
	if err := r.send(ctx, steps...); err != nil {
		return nil, err
	}
	return r.readExtend(steps), nil
}

// What extend.lua does, besides counting leases.
const (
	countOnly   = 0
	extendGroup = 1
	// extendAndLook also looks for news that the group does not know any more: extend.lua takes note that
	// the worker asks its queues, and the calls that ask them can fail.
	extendAndLook = 2
)

// extendSteps returns the steps that count leases in queues of some groups and, unless all is countOnly,
// extend them.
func (r *renewal) extendSteps(groups [][]string, all int) (steps []*step) {
	info := r.info()
	for _, names := range groups {
		steps = append(steps, &step{script: extendScript, queues: names, now: nowArg(r.req.Now), args: []any{
			r.req.Worker, broker.DurationMicros(r.req.Lease), all, r.req.Register, info, r.members.searchedAll(r.req.Worker, names)}})
	}
	return steps
}

// info returns the worker's description if it must be stored.
func (r *renewal) info() []byte {
	if r.req.Register || r.req.Describe {
		return broker.AppendWorkerInfo(nil, &r.req.Info)
	}
	return nil
}

// readExtend reads the answers, and returns the queues that have news.
func (r *renewal) readExtend(steps []*step) (news []string) {
	for _, s := range steps {
		switch {
		case errors.Is(s.err, broker.ErrUnavailable):
			r.fail(s.queues[0], s.err)
			continue
		case s.err != nil || len(s.reply) != 1+len(s.queues): // one of the queues may be the reason: ask each of them
			news = append(news, s.queues...)
			continue
		}
		r.note(s.at, number(s.reply[0]))
		for i, name := range s.queues {
			if held := number(s.reply[1+i]); held >= 0 {
				r.got.Held[name] = int(held)
			} else {
				news = append(news, name)
			}
		}
	}
	return news
}

// note records the store's time, and when leases run out.
func (r *renewal) note(now, lapse int64) {
	r.got.Now = later(r.got.Now, moment(now))
	r.got.NextLapse = sooner(r.got.NextLapse, moment(lapse))
}

// registerSteps returns the steps that register the worker in each queue, or ask each queue for
// everything about the worker.
func (r *renewal) registerSteps(names []string) []*step {
	info := r.info()
	steps := make([]*step, len(names))
	for i, name := range names {
		steps[i] = &step{script: registerScript, queues: []string{name}, create: r.req.Register, now: nowArg(r.req.Now),
			args: []any{r.req.Worker, broker.DurationMicros(r.req.Lease), r.req.Register, info}}
	}
	return steps
}

func (r *renewal) readRegister(steps []*step) {
	for _, s := range steps {
		name := s.queues[0]
		switch {
		case s.err != nil:
			r.fail(name, s.err)
		case s.code != codeDone || len(s.reply) < 2:
			r.got.Lost = true
		default:
			r.got.Held[name] = int(number(s.reply[0]))
			lapse := int64(-1)
			if number(s.reply[1]) > 0 {
				lapse = s.at
			}
			r.note(s.at, lapse)
			for asked := s.reply[2:]; len(asked) >= 2; asked = asked[2:] {
				r.got.Cancel = append(r.got.Cancel, broker.Ref{Queue: name, ID: text(asked[0]), Epoch: number(asked[1])})
			}
		}
	}
}
