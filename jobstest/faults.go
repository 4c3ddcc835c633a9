package jobstest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// Faults are random failures of the calls that the code under test makes to the
// broker, and of the leases of jobs. Each number is a probability between 0 and 1.
type Faults struct {
	// Seed makes the faults the same in each run of a test that makes the same
	// calls. Zero means a random seed, which is logged if the test fails.
	Seed uint64
	// Methods are the methods of broker.Broker whose calls fail. Nil means Enqueue,
	// Claim, Settle, Renew, Mark, Find and Operate.
	Methods []string
	// Unavailable: the call does nothing and fails with ErrUnavailable.
	Unavailable float64
	// ReplyLost: the call takes effect, but its reply is lost.
	ReplyLost float64
	// LeaseLost: a delivery of a job to a handler loses its lease, as with LoseLease.
	LeaseLost float64
	// Twice: a delivery is followed by another one, as with DeliverTwice.
	Twice float64
}

var faultyMethods = []string{"Enqueue", "Claim", "Settle", "Renew", "Mark", "Find", "Operate"}

// faults decide which calls and leases go wrong, and how.
type faults struct {
	mu         sync.Mutex
	calls      map[string]int // by method
	steps      []faultStep
	random     Faults
	rng        *rand.Rand
	deliveries int
	planned    map[int]loss // by delivery
	lost       map[lease]loss
}

// faultStep is the fault of one call of a method.
type faultStep struct {
	method string
	call   int
	fault  faulty.Fault
}

// loss says how a lease is lost.
type loss int

const (
	atTheEnd loss = iota + 1 // keeps succeed, but the outcome is refused
	atOnce                   // keeps are refused, too
)

type lease struct {
	worker, queue, id string
	epoch             int64
}

func leaseOf(j *broker.Job) lease { return lease{j.Worker, j.Queue, j.ID, j.Epoch} }

func newFaults() *faults {
	return &faults{calls: make(map[string]int), planned: make(map[int]loss), lost: make(map[lease]loss)}
}

// FailCall makes the nth call of a method of broker.Broker from now on, counted from
// 1, do nothing and fail with ErrUnavailable. The method is spelled as in the
// interface, such as "Enqueue".
func (b *Broker) FailCall(method string, n int) {
	b.t.Helper()
	b.plan("FailCall", method, n, faulty.Unavailable)
}

// LoseReply makes the nth call of a method of broker.Broker from now on, counted
// from 1, take effect but lose its reply: its caller does not know what happened.
func (b *Broker) LoseReply(method string, n int) {
	b.t.Helper()
	b.plan("LoseReply", method, n, faulty.ReplyLost)
}

func (b *Broker) plan(what, method string, n int, f faulty.Fault) {
	b.t.Helper()
	b.checkMethod(what, method)
	b.checkNumber(what, n)
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	b.faults.steps = append(b.faults.steps, faultStep{method, b.faults.calls[method] + n, f})
}

var allMethods = []string{"Enqueue", "Claim", "Renew", "Retire", "Settle", "Reclaim", "Prune", "Mark", "Find", "Queues", "Operate",
	"Policy", "Keys", "Watch", "Examine", "Ping"}

// checkMethod ends a test that misspells a method, since nothing would fail.
func (b *Broker) checkMethod(what, method string) {
	b.t.Helper()
	if !slices.Contains(allMethods, method) {
		b.t.Fatalf("jobstest: %s: %q is not a method of broker.Broker that can fail; these are: %v", what, method, allMethods)
	}
}

// checkNumber ends a test that asks for a call or delivery which never comes.
func (b *Broker) checkNumber(what string, n int) {
	b.t.Helper()
	if n < 1 {
		b.t.Fatalf("jobstest: %s: n is %d; use 1 for the next one, or more", what, n)
	}
}

// DeliverTwice repeats the nth delivery of a job to a handler from now on, counted
// from 1, as if its server had died after the handler had returned: the handler's
// effects and what it stored by SetCheckpoint and Step remain, but the outcome is
// lost. The job is not charged.
func (b *Broker) DeliverTwice(n int) {
	b.t.Helper()
	b.lose("DeliverTwice", n, atTheEnd)
}

// LoseLease makes the nth delivery of a job to a handler from now on, counted from
// 1, lose its lease, as if another server had reclaimed the job: SetCheckpoint and
// Step return ErrLeaseLost, and then the handler's context ends. The outcome is
// refused, and the job is delivered again. The job is not charged.
func (b *Broker) LoseLease(n int) {
	b.t.Helper()
	b.lose("LoseLease", n, atOnce)
}

func (b *Broker) lose(what string, n int, l loss) {
	b.t.Helper()
	b.checkNumber(what, n)
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	b.faults.planned[b.faults.deliveries+n] = l
}

// Faults sets random faults from now on and replaces earlier ones; the zero Faults
// ends them. FailCall, LoseReply, DeliverTwice and LoseLease remain in effect.
//
// A client repeats failed calls after 0.1 s or more; outside of a testing/synctest
// bubble the test takes that much longer.
func (b *Broker) Faults(f Faults) {
	b.t.Helper()
	for _, method := range f.Methods {
		b.checkMethod("Faults.Methods", method)
	}
	for _, p := range []struct {
		field string
		value float64
	}{{"Unavailable", f.Unavailable}, {"ReplyLost", f.ReplyLost}, {"LeaseLost", f.LeaseLost}, {"Twice", f.Twice}} {
		if !(p.value >= 0 && p.value <= 1) {
			b.t.Fatalf("jobstest: Faults.%s is %v; use a probability of 0 to 1", p.field, p.value)
		}
	}
	if sum := f.Unavailable + f.ReplyLost; sum > 1 {
		b.t.Fatalf("jobstest: Faults.Unavailable and Faults.ReplyLost add up to %v; a call has one of them at most, use 1 or less together", sum)
	}
	if sum := f.LeaseLost + f.Twice; sum > 1 {
		b.t.Fatalf("jobstest: Faults.LeaseLost and Faults.Twice add up to %v; a delivery has one of them at most, use 1 or less together", sum)
	}
	if f.Seed == 0 {
		f.Seed = rand.Uint64()
	}
	if f.Methods == nil {
		f.Methods = faultyMethods
	}
	b.faults.mu.Lock()
	b.faults.random, b.faults.rng = f, rand.New(rand.NewPCG(f.Seed, f.Seed))
	b.faults.mu.Unlock()
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("jobstest: the seed of the faults was %d", f.Seed)
		}
	})
}

// next returns the fault of the next call of a method.
func (f *faults) next(method string) faulty.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	for _, s := range f.steps {
		if s.method == method && s.call == f.calls[method] {
			return s.fault
		}
	}
	if f.rng == nil || !slices.Contains(f.random.Methods, method) {
		return faulty.Fault{}
	}
	switch x := f.rng.Float64(); {
	case x < f.random.Unavailable:
		return faulty.Unavailable
	case x < f.random.Unavailable+f.random.ReplyLost:
		return faulty.ReplyLost
	}
	return faulty.Fault{}
}

// around returns b with the faults.
func (f *faults) around(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		fault := f.next(c.Method)
		if fault.Before != nil {
			return fault.Before
		}
		err := f.settling(ctx, c, next)
		if fault.After != nil {
			c.Clear()
			return fault.After
		}
		return err
	})
}

// settling makes a call without the outcomes of lost leases, and decides which of the
// leases that it returns will be lost.
func (f *faults) settling(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
	switch req := c.Request.(type) {
	case *broker.SettleRequest:
		given := req.Items
		if req.Items = f.without(given); len(req.Items) == 0 && len(given) > 0 {
			*c.Reply.(*[]broker.Verdict) = f.verdicts(given, nil)
			return nil
		}
		err := next(ctx)
		if reply := c.Reply.(*[]broker.Verdict); len(*reply) == len(req.Items) {
			*reply = f.verdicts(given, *reply)
		}
		return err
	case *broker.ClaimRequest:
		given := req.Settle.Items
		req.Settle.Items = f.without(given)
		err := next(ctx)
		reply := c.Reply.(*broker.Claimed)
		if len(reply.Verdicts) == len(req.Settle.Items) {
			reply.Verdicts = f.verdicts(given, reply.Verdicts)
		}
		f.delivered(reply.Jobs)
		return err
	}
	return next(ctx)
}

// delivered counts deliveries and decides which of them will lose their lease.
func (f *faults) delivered(jobs []broker.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range jobs {
		if broker.Reserved(jobs[i].Queue) {
			continue // a job of the framework
		}
		f.deliveries++
		l := f.planned[f.deliveries]
		if f.rng != nil && l == 0 {
			switch x := f.rng.Float64(); {
			case x < f.random.LeaseLost:
				l = atOnce
			case x < f.random.LeaseLost+f.random.Twice:
				l = atTheEnd
			}
		}
		if l != 0 {
			f.lost[leaseOf(&jobs[i])] = l
		}
	}
}

// without returns the settlements to send to the store. For a lost lease it replaces
// the outcome by a release, and leaves out keeps if the lease is lost at once.
func (f *faults) without(items []broker.Settlement) []broker.Settlement {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent := make([]broker.Settlement, 0, len(items))
	for _, item := range items {
		l, keep := f.lost[leaseOf(item.Job)], item.Outcome.Kind() == broker.OutcomeKeep
		if l == atOnce && keep {
			continue
		}
		if l != 0 && !keep {
			kept := item.Outcome.Kept()
			if item.Outcome = broker.Release(); kept != nil && l == atTheEnd {
				item.Outcome = item.Outcome.With(*kept)
			}
		}
		sent = append(sent, item)
	}
	return sent
}

// verdicts returns the answers to all items, given those to the sent ones.
func (f *faults) verdicts(items []broker.Settlement, sent []broker.Verdict) []broker.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]broker.Verdict, len(items))
	for i, item := range items {
		l, keep := f.lost[leaseOf(item.Job)], item.Outcome.Kind() == broker.OutcomeKeep
		if l == 0 || !(l == atOnce && keep) {
			all[i], sent = sent[0], sent[1:]
		}
		if l == atOnce || l != 0 && !keep {
			all[i] = broker.Verdict{Queue: item.Job.Queue, ID: item.Job.ID, Err: broker.ErrLeaseLost}
		}
	}
	return all
}
