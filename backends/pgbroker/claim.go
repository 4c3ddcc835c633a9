package pgbroker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// promoteLimit bounds how many due jobs of one queue and state become pending in one claim. In
// all queues of the claim together, at most twice as many do.
const promoteLimit = 1000

// Claim settles and leases in one round trip, which is one transaction. It makes another
// round trip if a queue has several shares and the first ones left room. The commit of a claim
// without outcomes does not wait for the disk: if the server crashes before the write, it
// loses the leases too, and the jobs are pending again. §6.
func (b *Broker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return broker.Claimed{}, broker.About(err, "claim", "", "")
	}
	if req.Wait > 0 && req.Now.IsZero() && req.Max > 0 {
		return b.claimWaiting(ctx, &req)
	}
	got, err := b.claim(ctx, &req, nil)
	return got.Claimed, err
}

// claimed is the answer to a claim.
type claimed struct {
	broker.Claimed
	passed  bool // keys were skipped because other claims had locked them
	counted bool // rates counted its jobs as started at Now
}

// claim makes one claim. With known, it asks only for pending jobs, since known has
// everything else about the queues.
func (b *Broker) claim(ctx context.Context, req *broker.ClaimRequest, known *lastLook) (got claimed, err error) {
	heard := known.begin(b.waker)
	var duties map[string]*wakeUp
	if req.Max > 0 {
		duties = b.waker.assume(req.Queues)
	}
	defer func() {
		b.last.note(req, heard, known, &got.Claimed, err)
		b.waker.relieve(duties, &got.Claimed, err)
		b.handOver(req, &got.Claimed)
	}()
	s := newSettling(b, &req.Settle)
	state := make(map[string]queueState, 1)
	shares := req.Queues
	if req.Max == 0 {
		shares = nil
	}
	room := req.ByteLimit()
	if b.flows.any(req.Queues) {
		known = nil // known says nothing about keys
	}
	for first := true; first || len(shares) > 0 && len(got.Jobs) < req.Max && room > 0; first = false {
		c := &claiming{b: b, worker: req.Worker, now: clockOf(req.Now), asked: req.Now, known: known, heard: heard,
			limit: req.Max - len(got.Jobs), room: room, state: state}
		c.shares, shares = cutRepeat(shares, func(s broker.Share) string { return s.Queue })
		var before []step
		if first {
			c.looked, before = c.shares, s.steps() // also queues that the claim does not reach: the worker may have ended there
		}
		c.shares, shares, c.flow = b.flows.cut(c.shares, shares)
		if err = c.run(ctx, before); first {
			got.Verdicts, got.SettleErr = s.verdicts(ctx, err)
		}
		if err != nil {
			break
		}
		shares = append(c.begins, c.unfinished(shares)...)
		c.addTo(&got)
		room -= c.size
		if got.counted && req.Now.IsZero() { // rates would count jobs of these queues at a later time
			all := len(shares)
			shares = slices.DeleteFunc(shares, func(s broker.Share) bool { return b.flows.any([]broker.Share{s}) })
			got.More = got.More || len(shares) < all
		}
		got.passed = got.passed || c.passed
		got.More = got.More || len(shares) > 0 && (room <= 0 || len(got.Jobs) >= req.Max) ||
			c.passed && (len(got.Jobs) > 0 || req.Wait == 0)
	}
	if known != nil {
		got.Now, got.NextDue = known.time(), known.due
	} else if got.Now.IsZero() {
		got.Now = req.Now
	}
	if err != nil {
		b.dues.Forget()
		return got, broker.About(err, "claim", "", "")
	}
	b.noteLooks(req, &got.Claimed, state)
	var errs []error
	for queue, q := range state {
		errs = append(errs, broker.About(q.err, "claim", queue, ""))
		got.NextDue = earlier(got.NextDue, q.nextDue)
	}
	return got, errors.Join(errs...)
}

// addTo adds the jobs of a round trip. It is not called for a failed one, even if rows were
// read: its transaction may have been rolled back.
func (c *claiming) addTo(got *claimed) {
	if got.Jobs == nil {
		got.Jobs = c.jobs
	} else {
		got.Jobs = append(got.Jobs, c.jobs...)
	}
	got.More = got.More || c.more
	if at := max(c.at, c.counted); at != 0 && !got.counted {
		got.Now = broker.FromMicros(at)
	}
	got.counted = got.counted || c.counted != 0
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// queueState is what a claim learned about a queue.
type queueState struct {
	err     error
	nextDue time.Time
	looks   int // how often the claim looked at its keys
}

// claiming is one round trip of a claim. It asks each queue only once.
type claiming struct {
	b      *Broker
	worker string
	now    clock
	asked  time.Time // the request's Now
	known  *lastLook
	heard  news // the wake-ups before it began
	shares []broker.Share
	looked []broker.Share // the queues whose due jobs it promotes first; nil means those of shares
	limit  int
	room   int // the answer ends at this many bytes

	at      int64 // when it looked
	counted int64 // when rates counted the leased jobs, in the last queue that did: after the locks, so later than at
	due     int   // how many due jobs became pending
	jobs    []broker.Job
	taken   []int           // how many of the jobs are of each share
	size    int             // bytes of the jobs
	cut     bool            // claim.sql left out jobs because of their bytes
	full    map[string]bool // by queue without keys and limits: whether it gave all jobs that a share may take
	more    bool
	turns   []int64        // the next turn of each share's queue; nil if no queue has a priority round
	begins  []broker.Share // shares to ask again: the claim learned that their queues have rounds, keys or limits
	flow    bool           // whether the shares are of queues with keys or limits
	flows   []flowShare    // what it learned about each share, if flow is set
	passed  bool           // keys were skipped because other claims had locked them
	behind  int            // the number, from 1, of the first share whose queue turned out to have keys or limits; later ones gave nothing
	state   map[string]queueState
	places  []place       // the positions of the jobs
	shareOf map[int32]int // by number of the queue; nil for a single queue that was not looked at
}

// place is a job's position in the order of a claim.
type place struct {
	queue, lane int32
	seq         int64
}

func (c *claiming) run(ctx context.Context, settle []step) error {
	if len(c.shares) == 0 {
		if len(settle) == 0 {
			return nil
		}
		return c.b.run(ctx, append([]step{c.b.byIndex(false)}, settle...)...)
	}
	queues, limits := queuesOf(c.shares), make([]int32, len(c.shares))
	for i, s := range c.shares {
		limits[i] = int32(s.Max)
	}
	all := queues
	if len(c.looked) > 0 {
		all = queuesOf(c.looked)
	}
	begun := time.Now()
	from, due, sweep := c.b.floors.start(all, begun)
	if c.now.micros != nil {
		due = noDueFloors(len(all))
	}
	steps := append([]step{c.b.byIndex(len(settle) == 0)}, settle...)
	if len(c.shares) == 1 {
		c.limit = min(c.limit, c.shares[0].Max) // lease_due.sql knows the limit of the claim, but not that of the share
	}
	direct := c.known == nil && !c.flow && len(c.shares) == 1 && c.b.due.expected(queues[0], c.asked)
	if direct {
		steps = append(steps, c.leaseDue(from, due))
	}
	if c.known == nil {
		steps = append(steps, c.look(all, promoteLimit, due))
	} else if len(queues) > 1 {
		steps = append(steps, c.numbers(queues))
	}
	glance := c.flow && len(settle) == 0 && c.b.flows.idle(c.shares, c.heard)
	if c.flow {
		c.flows = make([]flowShare, len(c.shares))
	}
	switch {
	case glance:
		steps = append(steps, c.flowGlance()...)
	case c.flow:
		if len(queues) > 1 || c.b.flows.limited(queues[0]) {
			steps = append(steps, c.b.step("flow_limit", nil, c.worker, queues))
		}
		for i := range c.shares {
			steps = append(steps, c.flowSteps(i, from)...)
		}
	default:
		steps = append(steps, c.pending(queues, limits, from))
	}
	seen := c.b.floors.look(queues, begun, c.known != nil)
	if seen != nil {
		steps = append(steps, seen.step(c.b))
	}
	if err := c.b.run(ctx, steps...); err != nil {
		c.b.leases.doubt(c.worker)
		return err
	}
	ended := time.Now()
	c.b.leases.add(c.worker, len(c.jobs))
	c.b.floors.claimed(queues, max(len(c.jobs), c.due), sweep, ended.Sub(begun))
	if seen != nil {
		c.b.floors.raise(seen, ended)
	}
	if c.known == nil {
		c.noteDue(direct)
	}
	if c.cut || direct && c.more { // meanwhile other claims may have skipped the jobs that this one locked and then left out
		for _, q := range queues {
			c.b.wakeOthers(q)
		}
	}
	c.finish()
	switch {
	case glance:
		c.glanced()
	case c.flow:
		c.flowed()
	default:
		c.giveBack()
	}
	if c.behind > 0 {
		c.askBehind()
	}
	c.more = c.more || c.cut || c.due >= promoteLimit
	return nil
}

func queuesOf(shares []broker.Share) []string {
	names := make([]string, len(shares))
	for i, s := range shares {
		names[i] = s.Queue
	}
	return names
}

// pending returns the statement that leases pending jobs.
func (c *claiming) pending(queues []string, limits []int32, from []int64) step {
	args := []any{c.worker, c.limit, queues, limits, from, c.room}
	read := func(r rows) error { return c.scan(r, &c.cut) }
	if c.turns = c.b.flows.turns(c.shares, c.limit); c.turns == nil {
		return c.b.step("claim", read, args...)
	}
	return c.b.step("claim_rounds", func(r rows) error {
		for i := range c.places { // the jobs of lease_due.sql go first
			c.places[i].lane = 0
		}
		return read(r)
	}, append(args, c.turns)...)
}

// scan reads rows of jobs, which may have more columns at the end.
func (c *claiming) scan(r rows, more ...any) error { return c.scanEach(r, func() {}, more...) }

// scanEach is scan, and calls read after each row.
func (c *claiming) scanEach(r rows, read func(), more ...any) error {
	var row jobRow
	var p place
	var cancel *bool
	columns := append(append([]any{&p.queue, &p.lane, &p.seq, &cancel}, row.columns()...), more...)
	for r.Next() {
		row.body, row.tail = nil, nil
		if err := r.Scan(columns...); err != nil {
			return err
		}
		c.size += len(row.body) + len(row.tail)
		j := row.job("", broker.StateActive)
		j.Worker, j.CancelRequested = c.worker, cancel != nil && *cancel
		if len(c.jobs) == cap(c.jobs) && len(c.jobs) > 0 { // grow in large steps: jobs are large, so copying them often is slow
			c.jobs = slices.Grow(c.jobs, max(min(c.limit-len(c.jobs), 15*len(c.jobs)), 1))
		}
		c.jobs, c.places = append(c.jobs, j), append(c.places, p)
		read()
	}
	return nil
}

// finish fills in the queues of the jobs, and sorts the jobs in the order of their queues: an
// update returns its rows in any order.
func (c *claiming) finish() {
	c.taken = make([]int, len(c.shares))
	c.full = make(map[string]bool)
	order := make([]int, len(c.jobs))
	for i := range c.jobs {
		share := c.shareOf[c.places[i].queue]
		c.jobs[i].Queue = c.shares[share].Queue
		c.taken[share]++
		order[i] = i
	}
	for i, s := range c.shares {
		if !c.flow {
			c.full[s.Queue] = c.taken[i] > 0 && c.taken[i] == min(s.Max, c.limit)
		}
	}
	c.more = c.more || !c.flow && len(c.shares) > 1 && len(c.jobs) == c.limit
	less := func(a, b int) int {
		x, y := c.places[a], c.places[b]
		return cmp.Or(cmp.Compare(c.shareOf[x.queue], c.shareOf[y.queue]), cmp.Compare(x.lane, y.lane), cmp.Compare(x.seq, y.seq))
	}
	if slices.IsSortedFunc(order, less) {
		return
	}
	slices.SortFunc(order, less)
	sorted := make([]broker.Job, len(c.jobs))
	for to, from := range order {
		sorted[to] = c.jobs[from]
	}
	c.jobs = sorted
}

// giveBack gives back the turns that were not used.
func (c *claiming) giveBack() {
	if c.turns == nil {
		return
	}
	for i, s := range c.shares {
		c.b.flows.giveBack(s.Queue, min(s.Max, c.limit)-c.taken[i])
	}
}

// unfinished returns the remaining shares whose queues may still give jobs. A queue that gave less than its share has
// no more jobs. If a queue gave all of its last share, it may have more jobs than the claim asks for.
func (c *claiming) unfinished(left []broker.Share) (some []broker.Share) {
	for _, s := range left {
		if full, asked := c.full[s.Queue]; full || !asked || c.behind > 0 {
			some = append(some, s)
			delete(c.full, s.Queue)
		}
	}
	for _, full := range c.full {
		c.more = c.more || full
	}
	return some
}
