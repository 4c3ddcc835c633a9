package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

// mutant is a memory store with one fault, and the rules that must find it. mutate is
// called once for each store, and its result once for each handle.
type mutant struct {
	name   string
	kills  string // rules, separated by spaces
	mutate func() func(*patched)
}

func allMutants() []mutant {
	return slices.Concat(enqueueMutants, claimMutants, manyMutants, orderMutants, leaseMutants, settleMutants, keepMutants, reclaimMutants,
		scheduleMutants, examineMutants, uniqueMutants, meetMutants, keepLastMutants, policyMutants, findMutants, operateMutants, holdMutants,
		editMutants, restoreMutants, retentionMutants, markMutants, watchMutants, dataMutants, storeMutants, cutMutants, durableMutants,
		moreMutants, leftMutants, boundMutants, endedMutants, answerMutants, wakeMutants, raceMutants, limitMutants, formMutants,
		flowMutants, turnMutants, durableFlowMutants, totalsMutants, exactMutants)
}

func TestSuite_EachMutantIsKilledByTheRulesItNames(t *testing.T) {
	for _, m := range allMutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // so that waiting takes no real time
				for _, v := range conformance.Judge(memory(m.mutate), strings.Fields(m.kills)...) {
					switch {
					case v.Result != conformance.Failed:
						t.Errorf("%s: %s, although %s (JOBS_SEED=%d)", v.Rule, v.Result, m.name, v.Seed)
					case v.Section == "" || strings.Contains(v.Failure, "panic:"):
						t.Errorf("%s failed for another reason:\n%s", v.Rule, v.Failure)
					}
				}
			})
		})
	}
}

func TestSuite_EachRuleKillsAMutant(t *testing.T) {
	t.Parallel()
	killed := make(map[string]bool)
	for _, m := range allMutants() {
		for _, rule := range strings.Fields(m.kills) {
			killed[rule] = true
		}
	}
	for _, r := range conformance.Rules() {
		if !killed[r.ID] {
			t.Errorf("no mutant is killed by %s: a rule that nothing can break proves nothing", r.ID)
		}
	}
}

var background = context.Background()

// always returns a mutation whose handles share nothing.
func always(f func(*patched)) func() func(*patched) {
	return func() func(*patched) { return f }
}

// sharing returns a mutation whose handles share a map.
func sharing(f func(*patched, *sync.Map)) func() func(*patched) {
	return func() func(*patched) {
		var m sync.Map
		return func(p *patched) { f(p, &m) }
	}
}

// look returns a job as it is stored, or nil.
func (p *patched) look(now time.Time, queue, id string) *broker.Job {
	page, err := p.Broker.Find(background, broker.Query{Now: now, Queue: queue, IDs: []string{id}})
	if err != nil || len(page.Jobs) == 0 {
		return nil
	}
	return &page.Jobs[0]
}

// known returns the descriptions and names of all queues.
func (p *patched) known(now time.Time) (queues []broker.QueueInfo, names []string) {
	reply, _ := p.Broker.Queues(background, broker.QueuesRequest{Now: now, Workers: true})
	for _, q := range reply.Queues {
		names = append(names, q.Name)
	}
	return reply.Queues, names
}

// act operates on one job, unseen by the rule.
func (p *patched) act(now time.Time, kind broker.OperationKind, queue, id string) {
	_, _ = p.Broker.Operate(background, broker.Operation{Now: now, Kind: kind,
		Refs: []broker.Ref{{Queue: queue, ID: id, Epoch: broker.AnyEpoch}}})
}

// unused has settle numbers that no rule uses.
var unused = struct {
	sync.Mutex
	n int64
}{n: 1 << 40}

// settleAs settles a job as its worker, unseen by the rule.
func (p *patched) settleAs(now time.Time, worker string, j *broker.Job, o broker.Outcome) {
	unused.Lock()
	unused.n++
	n := unused.n
	unused.Unlock()
	_, _ = p.Broker.Settle(background, broker.SettleRequest{Now: now, Worker: worker, Number: n,
		Items: []broker.Settlement{{Job: j, Outcome: o}}})
}

// held returns the jobs that a worker holds in a queue.
func (p *patched) held(now time.Time, queue, worker string) []broker.Job {
	page, _ := p.Broker.Find(background, broker.Query{Now: now, Queue: queue, Worker: worker, Limit: 1000})
	return page.Jobs
}

// refused refuses jobs as duplicates of the holder that f returns, if any.
func (p *patched) refused(f func(*broker.NewJob) (holder string)) {
	next := p.enqueue
	p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
		var receipts []broker.Receipt
		for _, j := range r.Jobs {
			if holder := f(&j); holder != "" {
				receipts = append(receipts, broker.Receipt{Queue: j.Queue, ID: j.ID, Holder: holder, Err: broker.ErrDuplicate})
				continue
			}
			got, err := next(ctx, broker.EnqueueRequest{Now: r.Now, Jobs: []broker.NewJob{j}})
			if err != nil {
				return nil, err
			}
			receipts = append(receipts, got...)
		}
		return receipts, nil
	}
}

// leaked refuses unique keys that are in m, as held by the job stored there.
func (p *patched) leaked(m *sync.Map) {
	p.refused(func(j *broker.NewJob) string {
		holder, _ := m.Load(j.Body.Unique.Key)
		id, _ := holder.(string)
		return id
	})
}

// aliased makes unique keys that are in m free, even if a job holds them.
func (p *patched) aliased(m *sync.Map) {
	p.newJobs(func(j *broker.NewJob) {
		if _, free := m.Load(j.Body.Unique.Key); free && j.Body.Unique.Key != "" {
			j.Body.Unique.Key += " alias"
		}
	})
}

// verdicts changes every verdict, of settles and of claims that carry one.
func (p *patched) verdicts(f func(*broker.Verdict)) {
	each := func(vs []broker.Verdict) {
		for i := range vs {
			f(&vs[i])
		}
	}
	change(&p.settle, nil, func(_ *broker.SettleRequest, a *[]broker.Verdict) { each(*a) })
	change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) { each(a.Verdicts) })
}

// results changes every result of an operation.
func (p *patched) results(f func(broker.Operation, *broker.OperationResult)) {
	change(&p.operate, nil, func(o *broker.Operation, a *[]broker.OperationResult) {
		for i := range *a {
			f(*o, &(*a)[i])
		}
	})
}

// oneByOne divides operations into single jobs, and calls f for each.
func (p *patched) oneByOne(f func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult) {
	operate := p.operate
	p.operate = func(ctx context.Context, o broker.Operation) ([]broker.OperationResult, error) {
		var results []broker.OperationResult
		var failed error
		for _, ref := range o.Refs {
			results = append(results, f(func() broker.OperationResult {
				one := o
				one.Refs = []broker.Ref{ref}
				got, err := operate(ctx, one)
				if failed = errors.Join(failed, err); err != nil {
					return broker.OperationResult{Ref: ref}
				}
				return got[0]
			}, o, ref))
		}
		return results, failed
	}
}

// inStep makes claims and operations take a moment, so that concurrent ones interleave.
func (p *patched) inStep() {
	change(&p.claim, func(*broker.ClaimRequest) { time.Sleep(time.Millisecond) }, nil)
	change(&p.operate, func(*broker.Operation) { time.Sleep(time.Millisecond) }, nil)
}

// events changes or drops the events that a watcher sees.
func (p *patched) events(f func(broker.Event) (keep bool)) {
	next := p.watch
	p.watch = func(ctx context.Context, r broker.WatchRequest) (<-chan broker.Event, error) {
		in, err := next(ctx, r)
		if err != nil {
			return nil, err
		}
		out := make(chan broker.Event)
		go func() {
			defer close(out)
			for e := range in {
				if !f(e) {
					continue
				}
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
		}()
		return out, nil
	}
}
