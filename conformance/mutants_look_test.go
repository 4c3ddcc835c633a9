package conformance_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// page changes every page of a listing.
func (p *patched) page(f func(q *broker.Query, a *broker.Page)) {
	change(&p.find, nil, func(q *broker.Query, a *broker.Page) {
		if len(q.IDs) == 0 {
			f(q, a)
		}
	})
}

func (p *patched) query(f func(*broker.Query)) { change(&p.find, f, nil) }

var findMutants = []mutant{
	{"Find by ID shows the living", "Find/ByID", always(func(p *patched) {
		change(&p.find, nil, func(q *broker.Query, a *broker.Page) {
			if len(q.IDs) > 0 {
				a.Jobs = slices.DeleteFunc(a.Jobs, func(j broker.Job) bool { return j.State.Final() })
			}
		})
	})},
	{"cancelled jobs are listed as completed", "Find/ByState", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.State == broker.StateCancelled {
				q.State = broker.StateCompleted
			}
		})
	})},
	{"a cursor of another query fails in the store", "Find/ForeignCursorsHarmNothing", always(func(p *patched) {
		next := p.find
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			page, err := next(ctx, q)
			if q.Cursor != "" && errors.Is(err, broker.ErrInvalid) {
				err = broker.ErrUnavailable
			}
			return page, err
		}
	})},
	{"listings leave errors out", "Find/ByState", always(func(p *patched) {
		p.page(func(_ *broker.Query, a *broker.Page) {
			for i := range a.Jobs {
				a.Jobs[i].Errors = broker.ErrorLog{}
			}
		})
	})},
	{"a cursor skips a job", "Find/PagesShowEveryJob", always(func(p *patched) {
		p.page(func(q *broker.Query, a *broker.Page) {
			if q.Cursor != "" && len(a.Jobs) > 0 {
				a.Jobs = a.Jobs[1:]
			}
		})
	})},
	{"a cursor counts pages", "Find/PagesShowEveryJob", always(func(p *patched) {
		next := p.find
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			at, err := strconv.Atoi(cmp.Or(q.Cursor, "0"))
			if err != nil || q.Limit == 0 || q.State == broker.StateNone {
				return next(ctx, q)
			}
			limit := q.Limit
			q.Cursor, q.Limit = "", 1000
			a, err := next(ctx, q)
			a.Jobs = a.Jobs[min(at*limit, len(a.Jobs)):]
			if len(a.Jobs) > limit {
				a.Jobs, a.Cursor = a.Jobs[:limit], strconv.Itoa(at+1)
			}
			return a, err
		}
	})},
	{"a listing has one page", "Find/PagesShowEveryJob", always(func(p *patched) {
		p.page(func(_ *broker.Query, a *broker.Page) { a.Cursor = "" })
	})},
	{"a cursor counts jobs", "Find/SurvivesChange Hold/AsTheyAreListed", always(func(p *patched) {
		next := p.find
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			if q.State == broker.StateNone || q.Limit == 0 {
				return next(ctx, q)
			}
			from, _ := strconv.Atoi(q.Cursor)
			limit := q.Limit
			q.Cursor, q.Limit = "", 1000
			a, err := next(ctx, q)
			a.Jobs = a.Jobs[min(from, len(a.Jobs)):]
			if len(a.Jobs) > limit {
				a.Jobs, a.Cursor = a.Jobs[:limit], strconv.Itoa(from+limit)
			}
			return a, err
		}
	})},
	{"the newest come last", "Find/NewestFirst", always(func(p *patched) { p.query(func(q *broker.Query) { q.Newest = false }) })},
	{"a page of the newest leaves out its first", "Find/NewestFirst", always(func(p *patched) {
		p.page(func(q *broker.Query, a *broker.Page) {
			if q.Newest && q.Cursor != "" && len(a.Jobs) > 0 {
				a.Jobs = a.Jobs[1:]
			}
		})
	})},
	{"the newest are those of all times", "Find/NewestFirst", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.Newest {
				q.Before = time.Time{}
			}
		})
	})},
	{"scheduled jobs are listed backwards", "Find/ScheduledByDueTime", always(func(p *patched) {
		p.page(func(q *broker.Query, a *broker.Page) {
			if q.State == broker.StateScheduled {
				slices.Reverse(a.Jobs)
			}
		})
	})},
	{"dead jobs are listed backwards", "Find/FinalByEnd", always(func(p *patched) {
		p.page(func(q *broker.Query, a *broker.Page) {
			if q.State == broker.StateDead {
				slices.Reverse(a.Jobs)
			}
		})
	})},
	{"a listing of dead jobs by reason forgets the order", "Find/DeadByTypeAndReason", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.State == broker.StateDead && q.Reason != broker.ReasonNone {
				q.Newest = false
			}
		})
	})},
	{"a listing by type and reason is one by type", "Find/DeadByTypeAndReason", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.State == broker.StateDead && q.Type != "" {
				q.Reason = broker.ReasonNone
			}
		})
	})},
	{"a job that dies again is listed with its first reason", "Find/DeadByTypeAndReason", sharing(func(p *patched, m *sync.Map) {
		p.page(func(q *broker.Query, a *broker.Page) {
			if q.State == broker.StateDead {
				a.Jobs = slices.DeleteFunc(a.Jobs, func(j broker.Job) bool {
					first, _ := m.LoadOrStore(j.Queue+" "+j.ID, j.Reason)
					return q.Reason != broker.ReasonNone && first != q.Reason
				})
			}
		})
	})},
	{"a worker's listing is everybody's", "Find/ByWorker", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.Worker != "" {
				q.Worker, q.State = "", broker.StateActive
			}
		})
	})},
	{"a key's listing is of pending jobs", "Find/ByKey", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.Key != "" {
				q.State = broker.StatePending
			}
		})
	})},
	{"the type is ignored", "Find/Filters", always(func(p *patched) { p.query(func(q *broker.Query) { q.Type = "" }) })},
	{"the reason is ignored", "Find/Filters", always(func(p *patched) { p.query(func(q *broker.Query) { q.Reason = 0 }) })},
	{"an error text is a pattern", "Find/Filters", always(func(p *patched) {
		p.query(func(q *broker.Query) { q.ErrorText, _, _ = strings.Cut(q.ErrorText, "%") })
	})},
	{"After is exclusive", "Find/Filters", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if !q.After.IsZero() {
				q.After = q.After.Add(time.Microsecond)
			}
		})
	})},
	{"Before is of finished jobs alone", "Find/FiltersByDueAndCreation", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if !q.State.Final() {
				q.Before = time.Time{}
			}
		})
	})},
	{"NoPayload is ignored", "Find/MayLeaveThePayloadOut",
		always(func(p *patched) { p.query(func(q *broker.Query) { q.NoPayload = false }) })},
	{"NoPayload leaves the headers out", "Find/MayLeaveThePayloadOut", always(func(p *patched) {
		next := p.find
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			page, err := next(ctx, q)
			for i := range page.Jobs {
				if q.NoPayload {
					page.Jobs[i].Headers = nil
				}
			}
			return page, err
		}
	})},
	{"an unknown queue is an error", "Find/UnknownIsEmpty", always(func(p *patched) {
		next := p.find
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			if _, names := p.known(q.Now); !slices.Contains(names, q.Queue) {
				return broker.Page{}, broker.ErrNotFound
			}
			return next(ctx, q)
		}
	})},
	{"a query's limit is bent", "Find/RefusesWhatIsInvalid", always(func(p *patched) {
		p.query(func(q *broker.Query) { q.Limit = min(q.Limit, 1000) })
	})},

	{"retries are counted as scheduled", "Count/CountsAreOfStates", always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			for _, q := range a.Queues {
				q.Counts[broker.StateScheduled] += q.Counts[broker.StateRetry]
				q.Counts[broker.StateRetry] = 0
			}
		})
	})},
	{"Oldest is of pending jobs alone", "Count/OldestSaysSinceWhen", always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			for _, q := range a.Queues {
				delete(q.Oldest, broker.StateDead)
			}
		})
	})},
	{"only the priority next in turn is told", "Count/OldestIsOfEachPriority", always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			for i := range a.Queues {
				q := &a.Queues[i]
				for p := broker.PriorityUrgent; p <= broker.PriorityBulk; p++ {
					if at, ok := q.OldestPending[p]; ok {
						q.Oldest[broker.StatePending], q.OldestPending = at, map[broker.Priority]time.Time{p: at}
						break
					}
				}
			}
		})
	})},
	{"suppressed jobs are not counted", "Count/SuppressedAreCountedApart", always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			for i := range a.Queues {
				a.Queues[i].Suppressed = 0
			}
		})
	})},
	{"suppressed jobs are no dead ones", "Count/SuppressedAreCountedApart", always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			for i := range a.Queues {
				a.Queues[i].Counts[broker.StateDead] -= a.Queues[i].Suppressed
			}
		})
	})},
	{"queues are listed backwards", "Count/QueuesAreSorted", always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) { slices.Reverse(a.Queues) })
	})},
	{"counts are of the whole store", "Count/AreOfOneQueue", always(func(p *patched) {
		change(&p.queues, nil, func(r *broker.QueuesRequest, a *broker.QueuesReply) {
			all, _ := p.known(r.Now)
			for _, q := range a.Queues {
				clear(q.Counts)
				for _, other := range all {
					for state, n := range other.Counts {
						q.Counts[state] += n
					}
				}
			}
		})
	})},
}
