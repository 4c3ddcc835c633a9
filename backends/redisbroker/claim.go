package redisbroker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/duewatch"
)

// Claim settles the outcomes that come with the request and leases jobs. §6, §14, §16, §17.
//
// For a few queues on one server it sends one script call, in one round trip with the settle. For
// many queues, a look first finds the queues that have jobs, and Claim then asks some of these at
// a time. While most queues have jobs, it skips the look. In a Cluster it asks the groups of
// queues at the same time, each for a part of Max. Then it asks groups with more jobs for the rest
// of Max.
//
// A claim with a Wait waits once if it found no job, or knows that it would find none, until the
// next due time at the latest. It may return early without a job: if another worker was faster, or
// to report an earlier NextDue.
//
// If ctx ends first, jobs that the server still leases are released as soon as its answer arrives.
// If the answer is lost, the worker's heartbeats report these leases (§7).
func (b *Broker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	if err := req.Check(); err != nil {
		return broker.Claimed{}, err
	}
	waits := req.Wait > 0 && req.Max > 0 && len(req.Queues) > 0 && req.Now.IsZero()
	got, still := b.lastClaim.again(&req)
	var err error
	if !still || !waits {
		got, err = b.claim(ctx, &req)
	}
	if waits && err == nil && len(got.Jobs) == 0 {
		got, err = b.wait(ctx, &req, got)
	}
	b.lastClaim.remember(&req, &got, err)
	if err != nil {
		b.dues.Forget()
	}
	return got, err
}

// claim is a claim that does not wait.
func (b *Broker) claim(ctx context.Context, req *broker.ClaimRequest) (got broker.Claimed, err error) {
	batches := b.settleBatches(&req.Settle)
	c := b.newClaim(req, b.plenty.Load())
	if len(c.queues) == 0 && len(batches) == 0 {
		return got, broker.About(b.usable(ctx), "claim", "", "")
	}
	var ended error
	for again := true; again; {
		steps := c.next(b)
		settles := settleSteps(batches)
		late := func() { b.giveBack(&c.request, steps) }
		if ended = b.run(ctx, late, append(settles, steps...)...); ended != nil {
			break
		}
		if len(batches) > 0 {
			got.Verdicts, got.SettleErr = verdicts(batches, &req.Settle)
			batches = nil
		}
		again = len(c.queues) > 0 && c.readNext(b)
	}
	return got, errors.Join(c.answer(b, &got), broker.About(ended, "claim", "", ""))
}

// claim is a claim in progress: what it has asked of which queue.
type claim struct {
	request claimant
	round   round    // the queues of a round
	queues  []string // each queue once, in the order of the shares
	spread  bool     // the queues are of several groups
	left    int      // what is left of Max
	room    int      // what is left of Bytes
	at      int64    // the store's time, from the answers
	learned int      // how often a queue turned out to have another number of buckets

	// By share:
	queueOf []int // index in queues
	want    []int // what is left of its Max
	asked   []int // the number of jobs asked for in this round and not received
	shares  [][]leased

	// By index in queues:
	group   []int // the queue's group; 0 on a single server
	more    []bool
	due     []int64
	claimed []int64 // how many jobs of the queue were claimed so far, in all; -1 if unknown
	keep    []bool  // the queue gave a job, or the claim took its wake token
	errs    []error
}

// claimant is the worker for which jobs are leased.
type claimant struct {
	worker string
	now    time.Time
	many   int // number of queues of a claim that may take several calls; 0 if one call asks all
}

func (b *Broker) newClaim(req *broker.ClaimRequest, plenty bool) *claim {
	n := len(req.Queues)
	c := &claim{request: claimant{worker: req.Worker, now: req.Now}, left: req.Max, room: req.ByteLimit(),
		want: make([]int, n), asked: make([]int, n), shares: make([][]leased, n), queueOf: make([]int, n)}
	places := make(map[string]int, n)
	for i, share := range req.Queues {
		at, ok := places[share.Queue]
		if !ok {
			at = len(c.queues)
			places[share.Queue] = at
			c.queues = append(c.queues, share.Queue)
			group := 0
			if b.store.cluster != nil {
				group = groupOf(share.Queue)
			}
			c.group = append(c.group, group)
			c.spread = c.spread || group != c.group[0]
		}
		c.queueOf[i], c.want[i] = at, share.Max
	}
	q := len(c.queues)
	c.more, c.due, c.errs = make([]bool, q), make([]int64, q), make([]error, q)
	c.keep, c.claimed = make([]bool, q), slices.Repeat([]int64{-1}, q)
	if c.round.init(q, q > b.few, plenty); c.round.many {
		c.request.many = q
	}
	if c.round.looks == 0 {
		c.choose()
	}
	return c
}

// byGroup divides some of the queues, by index, among their groups.
func (c *claim) byGroup(places []int) (groups [][]int) {
	var of [queueGroups]int
	for _, at := range places {
		g := &of[c.group[at]]
		if *g == 0 {
			groups = append(groups, nil)
			*g = len(groups)
		}
		groups[*g-1] = append(groups[*g-1], at)
	}
	return groups
}

func (c *claim) step(most, room int, queues ...string) *step {
	return &step{script: claimScript, queues: queues, now: nowArg(c.request.now), args: []any{c.request.worker, most, room, c.request.many}}
}

// addShare asks for jobs of a share; place is the index of its queue in the step.
func (s *step) addShare(share, place, most int) {
	s.args = append(s.args, place+1, most)
	s.shares = append(s.shares, share)
	s.places = append(s.places, place)
}

// readStep reads an answer; places are the indexes in the claim of the step's queues.
func (c *claim) readStep(b *Broker, s *step, places ...int) {
	c.at = max(c.at, s.at)
	for n, share := range s.shares {
		list := s.list(n)
		c.shares[share] = append(c.shares[share], list)
		c.want[share] -= list.len()
		c.asked[share] -= list.len()
		c.left -= list.len()
		c.keep[c.queueOf[share]] = c.keep[c.queueOf[share]] || list.len() > 0
		c.room -= textBytes(list)
	}
	for n, at := range places {
		c.errs[at] = s.err
		if s.err == nil && n < len(s.reply) {
			status, _ := s.reply[n].([]any)
			c.status(b, at, status)
		}
	}
}

// list returns the jobs of the n-th share of a step.
func (s *step) list(n int) leased {
	if s.err != nil || len(s.queues)+n >= len(s.reply) {
		return nil
	}
	list, _ := s.reply[len(s.queues)+n].([]any)
	return list
}

// leased is what claim.lua answers for a share: triples of IDs, bodies, and a list of the numbers
// and heads of jobs that have one.
type leased []any

// len counts the jobs.
func (l leased) len() int {
	n := 0
	for ; len(l) >= 3; l = l[3:] {
		bodies, _ := l[1].([]any)
		for _, body := range bodies {
			if body != nil {
				n++
			}
		}
	}
	return n
}

// status reads the answer of a queue.
func (c *claim) status(b *Broker, at int, status []any) {
	switch code := number(first(status)); {
	case code == codeDone && len(status) == 5:
		c.more[at], c.due[at], c.claimed[at] = number(status[1]) == 1, number(status[2]), number(status[3])
		c.keep[at] = c.keep[at] || number(status[4]) == 1
	case code == codeBuckets && len(status) == 2 && number(status[1]) > 0:
		b.learn(c.queues[at], int(number(status[1])))
		c.learned++
		c.more[at], c.due[at] = true, -1
	case code == codeNewer && len(status) == 2:
		c.errs[at] = newerLayout(number(status[1]))
	default: // the queue does not exist, so the worker is not registered in it
		c.errs[at] = broker.ErrWorkerGone
	}
}

// answer combines the answers of all rounds, and remembers what they say about due times.
func (c *claim) answer(b *Broker, got *broker.Claimed) error {
	got.Now = moment(c.at)
	n := 0
	for _, lists := range c.shares {
		for _, list := range lists {
			n += list.len()
		}
	}
	if n > 0 {
		got.Jobs = make([]broker.Job, 0, n)
	}
	for i, lists := range c.shares {
		for _, list := range lists {
			got.Jobs = c.request.records(got.Jobs, c.queues[c.queueOf[i]], list)
		}
	}
	var errs []error
	var looks []duewatch.Look
	for at, name := range c.queues {
		if err := c.errs[at]; err != nil {
			errs = append(errs, broker.About(err, "claim", name, ""))
			continue
		}
		got.More = got.More || c.more[at]
		got.NextDue = sooner(got.NextDue, moment(c.due[at]))
		if c.round.asked[at] || c.round.idle[at] {
			looks = append(looks, duewatch.Look{Queue: name, Due: moment(c.due[at]), Claimed: c.claimed[at], Keep: c.keep[at]})
		}
	}
	if c.request.now.IsZero() {
		b.dues.Looked(c.request.worker, got.Now, looks)
	}
	return errors.Join(errs...)
}

// records adds the jobs of a list to jobs.
func (c *claimant) records(jobs []broker.Job, queue string, list leased) []broker.Job {
	for ; len(list) >= 3; list = list[3:] {
		ids, _ := list[0].([]any)
		bodies, _ := list[1].([]any)
		heads, _ := list[2].([]any)
		for n, body := range bodies {
			if body == nil || n >= len(ids) {
				continue
			}
			head := ""
			if len(heads) >= 2 && number(heads[0]) == int64(n+1) {
				head, heads = text(heads[1]), heads[2:]
			}
			j := record(queue, text(ids[n]), text(body), head, broker.StateActive)
			j.Worker = c.worker
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// giveBack releases jobs that arrived after Claim had returned.
func (b *Broker) giveBack(to *claimant, steps []*step) {
	var jobs []broker.Job
	for _, s := range steps {
		for n, place := range s.places {
			jobs = to.records(jobs, s.queues[place], s.list(n))
		}
	}
	b.release(to.worker, to.now, jobs)
}

// release puts jobs back to the front of their queues. If that fails, they stay leased until the
// worker notices leases that it does not know, or until its leases run out. §7.
func (b *Broker) release(worker string, now time.Time, jobs []broker.Job) {
	if len(jobs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), putBackTime)
	defer cancel()
	req := broker.SettleRequest{Now: now, Worker: worker, Items: make([]broker.Settlement, len(jobs))}
	for i := range jobs {
		req.Items[i] = broker.Settlement{Job: &jobs[i], Outcome: broker.Release()}
	}
	steps := settleSteps(b.settleBatches(&req))
	b.rounds(ctx, steps)
	for _, s := range steps {
		if s.err != nil {
			b.log.Warn("jobs given to a claim that had ended could not be put back; their worker releases them with its next heartbeats",
				"worker", worker, "queue", s.queues[0], "error", s.err)
		}
	}
}
