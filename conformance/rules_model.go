package conformance

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The rules of this group make random calls. They compare each answer with the
// model, and every few calls the whole store.
var modelRules = []Rule{
	{"Model/OneQueue", "§26", "Whatever is asked of a queue, in whatever order, every answer is what the contract says.", nil,
		func(c *check) {
			c.sequences(1, 300)
		}},
	{"Model/SeveralQueues", "§26", "Whatever is asked of several queues at once, every answer is what the contract says.", nil,
		func(c *check) {
			c.sequences(3, 300)
		}},
	{"Model/NoKeyStarves", "§34",
		"Whatever happens in a queue with many keys, a key that can start a job waits for at most as many jobs of each other " +
			"key as the highest " +
			"weight that key ever had, and two more.", flow, func(c *check) {
			c.runs(1, 300, func(s *sequence) { s.all, s.m.turns, s.tenants, s.keyed = s.all[:1], true, 6, 85 })
		}},
}

// Without JOBS_STRESS, a rule runs this number of sequences, or as many as it can in
// this time: fewer miss too much, and more make the suite slow.
const (
	sequencesAtLeast = 20
	sequencesFor     = 2 * time.Second
)

// stressing is the least time for which random and concurrent rules run.
var stressing = func() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("JOBS_STRESS")) // zero if it is unset or not a duration
	return d
}()

// seed returns JOBS_SEED, or a new seed if that is unset.
func (c *check) seed() uint64 {
	seed, err := strconv.ParseUint(os.Getenv("JOBS_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano()) % 1e9
	}
	c.seeded(seed)
	return seed
}

// seeded logs a seed before its use, and makes a failure show it.
func (c *check) seeded(seed uint64) {
	c.tb.Logf("JOBS_SEED=%d", seed)
	c.calls.seed, c.verdict.Seed = seed, seed
}

// sequences runs random sequences, each in queues of its own.
func (c *check) sequences(queues, steps int) {
	c.tb.Helper()
	c.runs(queues, steps, func(*sequence) {})
}

func (c *check) runs(queues, steps int, change func(*sequence)) {
	c.tb.Helper()
	handles := c.handles()
	begun, seed := time.Now(), c.seed()
	for n := uint64(0); ; n++ {
		lasted := time.Since(begun)
		if lasted >= stressing && (n >= sequencesAtLeast || lasted >= sequencesFor) {
			return
		}
		c.seeded(seed + n)
		s := newSequence(c, handles[:], seed+n, queues)
		change(s)
		s.run(steps)
	}
}

// sequence makes random calls on a store, and applies them to the model.
type sequence struct {
	*check
	m       *model
	r       *rand.Rand
	names   []string
	ids     int
	run0    uint64
	workers []*modelClient
	all     []broker.Broker // the handles

	tenants, keyed int // the number of keys, and the percentage of jobs that have one
}

// modelClient is a worker with the leases that it has, or had.
type modelClient struct {
	id     string
	known  []broker.Job
	number int64
	last   broker.SettleRequest
}

// learn adds jobs that a worker got. It forgets an earlier job with the same ID and epoch, which was
// removed: no store can tell the two leases apart.
func (w *modelClient) learn(jobs []broker.Job) {
	for _, j := range jobs {
		w.known = slices.DeleteFunc(w.known, func(old broker.Job) bool {
			return old.Queue == j.Queue && old.ID == j.ID && old.Head.Epoch == j.Head.Epoch
		})
		w.known = append(w.known, j)
	}
}

func newSequence(c *check, handles []broker.Broker, seed uint64, queues int) *sequence {
	h := fnv.New64a()
	fmt.Fprint(h, c.rule.ID, seed)
	s := &sequence{check: c, run0: seed, r: rand.New(rand.NewPCG(h.Sum64(), 0)),
		m:   &model{now: c.now, queues: map[string]*modelQueue{}, marks: map[string]*broker.Marked{}},
		all: handles, tenants: 3, keyed: 40}
	for i := range queues {
		s.names = append(s.names, fmt.Sprintf("q%d-%d", i, seed))
	}
	return s
}

func (s *sequence) run(steps int) {
	s.tb.Helper()
	for _, name := range s.names { // the queues must exist before other calls
		s.enqueueJobs(s.newJob(name))
	}
	s.rates()
	moves := []struct {
		weight int
		move   func()
	}{
		{18, s.enqueueSome}, {22, s.claim}, {18, s.settle}, {4, s.repeatSettle}, {8, s.operate}, {8, s.passTime}, {4, s.renew},
		{5, s.reclaim}, {2, s.retire}, {3, s.changePolicy}, {4, s.changeFlow}, {3, s.mark}, {2, s.look}, {6, s.restore},
	}
	total := 0
	for _, mv := range moves {
		total += mv.weight
	}
	for range steps {
		s.b = s.all[s.r.IntN(len(s.all))]
		at := s.r.IntN(total)
		for _, mv := range moves {
			if at -= mv.weight; at < 0 {
				mv.move()
				break
			}
		}
		s.pruneWhatLapsed()
		for _, name := range s.names {
			s.m.queue(name).wait(s.m.startable(s.m.queue(name)))
		}
	}
	s.look()
}

// agree ends the rule if the store and the model differ.
func (s *sequence) agree(err error) {
	s.tb.Helper()
	if err != nil {
		s.failf("the store and the model disagree: %v", err)
	}
}

func (s *sequence) chance(percent int) bool { return s.r.IntN(100) < percent }

func (s *sequence) name() string { return s.names[s.r.IntN(len(s.names))] }

func (s *sequence) client() *modelClient {
	for len(s.workers) < 4 {
		w := &modelClient{id: fmt.Sprintf("w%d-%d", s.ids, s.run0)}
		s.ids++
		s.workers = append(s.workers, w)
		s.renewOf(w, true)
	}
	return s.workers[s.r.IntN(len(s.workers))]
}

// newJob returns a random job, sometimes with an ID that exists or existed.
func (s *sequence) newJob(queue string) broker.NewJob {
	s.ids++
	j := s.job(fmt.Sprint("j", s.ids))
	if s.chance(10) {
		j.ID = fmt.Sprint("j", 1+s.r.IntN(s.ids))
	}
	j.Queue = queue
	b := &j.Body
	b.GivenID = s.chance(30)
	if s.chance(30) && !s.limits.NoPriority {
		b.Priority = broker.Priority(1 + s.r.IntN(broker.Priorities))
	}
	if s.chance(35) && !s.limits.NoUnique {
		b.Unique = broker.Unique{Key: fmt.Sprint("key", s.r.IntN(5)), Mode: broker.UniqueMode(s.r.IntN(3))}
		if b.Unique.Mode == window || s.chance(50) {
			b.Unique.TTL = time.Duration(1+s.r.IntN(90)) * time.Second
		}
	}
	if s.chance(20) {
		b.Retention = time.Duration(1+s.r.IntN(120)) * time.Second
	}
	if s.chance(s.keyed) {
		b.Key = s.key()
	}
	switch {
	case s.chance(20):
		j.Delay = s.duration()
	case s.chance(10):
		j.RunAt = s.m.now.Add(s.duration() - 20*time.Second)
	}
	s.conflict(&j)
	return j
}

// duration returns zero to a minute, often so short that it affects the order.
func (s *sequence) duration() time.Duration {
	switch s.r.IntN(4) {
	case 0:
		return time.Duration(s.r.IntN(5)) * s.tick
	case 1:
		return time.Duration(s.r.IntN(10)) * time.Second
	}
	return time.Duration(s.r.IntN(60_000)) * time.Millisecond
}

func (s *sequence) enqueueSome() {
	var jobs []broker.NewJob
	for range 1 + s.r.IntN(5) {
		j := s.newJob(s.name())
		j.Delay, j.RunAt = max(j.Delay, 0), s.up(j.RunAt)
		jobs = append(jobs, j)
	}
	s.enqueueJobs(jobs...)
}

func (s *sequence) enqueueJobs(jobs ...broker.NewJob) {
	s.agree(s.m.enqueue(jobs, s.enqueue(jobs...)))
}

func (s *sequence) claim() {
	w := s.client()
	req := broker.ClaimRequest{Now: s.m.now, Worker: w.id, Max: 1 + s.r.IntN(6), Bytes: s.bytes()}
	for _, i := range s.r.Perm(len(s.names)) {
		req.Queues = append(req.Queues, broker.Share{Queue: s.names[i], Max: 1 + s.r.IntN(4)})
	}
	for s.chance(20) { // a queue may have several shares
		req.Queues = append(req.Queues, broker.Share{Queue: s.name(), Max: s.r.IntN(4)})
	}
	if s.chance(30) {
		req.Settle = s.outcomes(w)
	}
	got, err := s.b.Claim(s.ctx, req)
	s.agree(s.m.claim(req, got, err))
	w.learn(got.Jobs)
}

// bytes returns a bound for an answer: mostly the default, else one job or a few.
func (s *sequence) bytes() int {
	if s.chance(70) {
		return 0
	}
	return 1 + s.r.IntN(100)
}

// outcomes returns a settle of some jobs that a worker knows, but may no longer hold.
func (s *sequence) outcomes(w *modelClient) broker.SettleRequest {
	w.number++
	req := broker.SettleRequest{Now: s.m.now, Worker: w.id, Number: w.number, History: s.r.IntN(3)}
	for range min(1+s.r.IntN(4), len(w.known)) {
		i := s.r.IntN(len(w.known))
		job := w.known[i]
		req.Items = append(req.Items, broker.Settlement{Job: &job, Outcome: s.outcome(), Waited: s.spent(), Ran: s.spent()})
		switch item := &req.Items[len(req.Items)-1]; {
		case s.chance(20):
			k := s.kept()
			item.Outcome, w.known[i].Kept = broker.Keep(k), &k // later outcomes apply to a head that has it
		case s.chance(90):
			w.known = append(w.known[:i:i], w.known[i+1:]...)
		}
	}
	w.last = req
	return req
}

func (s *sequence) outcome() broker.Outcome {
	f := broker.Failure{At: s.m.now, Message: fmt.Sprint("error ", s.r.IntN(100)), Attempt: s.r.IntN(3)}
	delay := time.Duration(0)
	if s.chance(60) {
		delay = s.duration()
	}
	if s.chance(10) {
		return s.ending(delay, f).With(s.kept())
	}
	return s.ending(delay, f)
}

func (s *sequence) ending(delay time.Duration, f broker.Failure) broker.Outcome {
	switch s.r.IntN(10) {
	case 0:
		return broker.Retry(delay, f)
	case 1:
		return broker.Crash(delay, f)
	case 2:
		return broker.Die(broker.DeadReason(1+s.r.IntN(6)), f)
	case 3:
		return broker.Snooze(delay, broker.Failure{})
	case 4, 5:
		return broker.Release()
	case 6:
		return broker.Cancel(f)
	}
	return broker.Complete([]byte(fmt.Sprint(s.r.IntN(100))))
}

// spent returns how long something took; zero does not count.
func (s *sequence) spent() time.Duration {
	return time.Duration(max(s.r.IntN(100_000)-30_000, 0)) * time.Microsecond
}

// kept returns random data to keep, or none.
func (s *sequence) kept() (k broker.Kept) {
	if s.chance(60) {
		k.Checkpoint = []byte(fmt.Sprint("checkpoint ", s.r.IntN(100)))
	}
	for i := range s.r.IntN(3) {
		k.Steps = append(k.Steps, broker.DoneStep{Name: fmt.Sprint("step ", i), Result: []byte(fmt.Sprint(s.r.IntN(100)))})
	}
	if s.chance(50) {
		k.Progress = broker.Progress{Done: int64(s.r.IntN(10)), Total: int64(s.r.IntN(10)), Note: "note"}
	}
	return k
}

func (s *sequence) settle() {
	w := s.client()
	if req := s.outcomes(w); len(req.Items) > 0 {
		verdicts, err := s.b.Settle(s.ctx, req)
		s.agree(s.m.settle(req, verdicts, err))
	}
}

// repeatSettle sends a worker's last settle again, or one with an older number.
func (s *sequence) repeatSettle() {
	w := s.client()
	req := w.last
	req.Now = s.m.now
	if s.chance(30) {
		req.Number--
	}
	if len(req.Items) == 0 || req.Number < 1 {
		return
	}
	for _, name := range s.names {
		if s.m.queue(name).workers[w.id].ended {
			return // its numbers ended with it
		}
	}
	for _, item := range req.Items { // a queue that was not in the last settle knows only an earlier number
		if s.m.queue(item.Job.Queue).workers[w.id].number != w.last.Number {
			return
		}
	}
	verdicts, err := s.b.Settle(s.ctx, req)
	s.agree(s.m.settle(req, verdicts, err))
}
