package workflow

import (
	"context"
	"maps"
	"slices"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// store is a broker whose calls are bounded in time and size.
type store struct{ broker.Broker }

const (
	// maxLook is how many jobs a call asks for: the heads of that many jobs are a few hundred kilobytes.
	maxLook    = 1000
	maxOperate = 1000
	// How many payloads or results a call asks for: each can have a megabyte, but after small ones more are asked for.
	minResults, maxResults = 20, 200
)

// open returns the store of a client.
func open(ctx context.Context, client *jobs.Client) (store, error) {
	b := client.Broker()
	switch {
	case b == nil:
		return store{}, broker.Invalid("client",
			"has no broker, or is one of a transaction, in which only Start works; pass the client that was made with NewClient")
	case ctx == nil:
		return store{}, broker.Invalid("context", "is nil; use context.Background()")
	case b.Limits().NoMark:
		return store{}, errNoMarks
	}
	return store{reserved.Bounded(b)}, nil
}

var errNoMarks = &broker.Error{Field: "workflow", Err: broker.ErrUnsupported, Hint: "the store has no marks, which workflows need"}

// with opens the store of a client and calls f, for a public function about the workflow id.
func with(ctx context.Context, client *jobs.Client, op, id string, f func(store) error) error {
	s, err := open(ctx, client)
	if err == nil {
		err = checkNested(id)
	}
	if err == nil {
		err = f(s)
	}
	return about(err, op, id)
}

// states are the marks with the states of the workflows.
func (s store) states() reserved.States {
	return reserved.States{Broker: s.Broker, Of: "workflow", Version: stateVersion}
}

// put stores a job in the reserved queue of a store, or in a transaction of it.
func put(ctx context.Context, to broker.Producer, job broker.NewJob) error {
	job.Body.Timeout = runTimeout
	return reserved.Put(ctx, to, Queue, job)
}

// look finds jobs by ID, in as few calls as possible, and calls f with each. Jobs
// that do not exist are left out.
func (s store) look(ctx context.Context, refs []broker.Ref, payloads bool, f func(*broker.Job)) error {
	most := maxLook
	if payloads {
		most = minResults
	}
	byQueue := make(map[string][]string)
	for _, r := range refs {
		byQueue[r.Queue] = append(byQueue[r.Queue], r.ID)
	}
	for _, queue := range slices.Sorted(maps.Keys(byQueue)) {
		for ids := byQueue[queue]; len(ids) > 0; {
			n, size := min(len(ids), most), 0
			q := broker.Query{Queue: queue, IDs: ids[:n], NoPayload: !payloads, Suppressed: true, Limit: maxLook}
			err := reserved.Each(ctx, s.Broker, q, func(page []broker.Job) error {
				for i := range page {
					size += len(page[i].Payload) + len(page[i].Result)
					f(&page[i])
				}
				return nil
			})
			if err != nil {
				return err
			}
			if ids = ids[n:]; payloads && size < broker.MaxResult {
				most = min(2*most, maxResults)
			}
		}
	}
	return nil
}

// each calls f with each page of the jobs in the reserved queue that q selects.
func (s store) each(ctx context.Context, q broker.Query, f func([]broker.Job) error) error {
	q.Queue, q.Suppressed = Queue, true
	return reserved.Each(ctx, s.Broker, q, f)
}

// operate carries out an operation on jobs, in as few calls as possible, and
// calls f with the result of each. The error is that of the store; a refusal is
// in its result.
func (s store) operate(ctx context.Context, op broker.Operation, refs []broker.Ref, f func(i int, r broker.OperationResult)) error {
	for from := 0; from < len(refs); from += maxOperate {
		op.Refs = refs[from:min(len(refs), from+maxOperate)]
		results, err := s.Operate(ctx, op)
		if err != nil {
			return err
		}
		for i, r := range results {
			if broker.StoreFailed(r.Err) {
				return r.Err
			}
			if f != nil {
				f(from+i, r)
			}
		}
	}
	return nil
}

// remove deletes jobs in any state but active.
func (s store) remove(ctx context.Context, refs []broker.Ref) error {
	for i := range refs {
		refs[i].Epoch = broker.AnyEpoch
	}
	return s.operate(ctx, broker.Operation{Kind: broker.OpDelete}, refs, nil)
}

// letGo applies an operation to jobs that rest until their turn, as operate does. A move that held a job and put it back
// has changed its epoch, so a job that rests nevertheless is looked up.
func (s store) letGo(ctx context.Context, op broker.Operation, refs []broker.Ref, f func(i int, r broker.OperationResult)) error {
	refused := make(map[string]int)
	var changed, rest []broker.Ref
	var place []int
	err := s.operate(ctx, op, refs, func(i int, r broker.OperationResult) {
		if r.Err == nil || r.State != broker.StateScheduled {
			f(i, r)
			return
		}
		refused[refs[i].ID] = i
		changed = append(changed, refs[i])
	})
	if err == nil {
		err = s.look(ctx, changed, false, func(job *broker.Job) {
			i := refused[job.ID]
			if !rests(job) {
				f(i, broker.OperationResult{Ref: refs[i], State: job.State, Err: broker.ErrWrongState})
				return
			}
			rest, place = append(rest, job.Ref()), append(place, i)
		})
	}
	if err != nil {
		return err
	}
	return s.operate(ctx, op, rest, func(i int, r broker.OperationResult) { f(place[i], r) })
}

// rests reports whether a job waits for its turn in its workflow.
func rests(job *broker.Job) bool {
	return job.State == broker.StateScheduled && job.RunAt.Equal(parked.Until)
}

// isHeld reports whether a move holds a job that was to be let go: it can come back.
func isHeld(r broker.OperationResult) bool { return r.Err != nil && r.State == broker.StateWaiting }
