package conformance_test

import (
	"slices"
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

var moreMutants = []mutant{
	{"an ID given twice shows its job twice", "Find/ByID", always(func(p *patched) {
		change(&p.find, nil, func(q *broker.Query, a *broker.Page) {
			for i, id := range q.IDs {
				if at := slices.IndexFunc(a.Jobs, func(j broker.Job) bool { return j.ID == id }); at >= 0 && slices.Contains(q.IDs[:i], id) {
					a.Jobs = append(a.Jobs, a.Jobs[at])
				}
			}
		})
	})},
	{"a redriven job keeps its place among the dead", "Retention/RedrivenJobIsNotPruned", sharing(func(p *patched, m *sync.Map) {
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == broker.OpRedrive && r.Err == nil {
				m.Store(r.Ref.ID, true)
			}
		})
		change(&p.prune, nil, func(_ *broker.PruneRequest, a *broker.Pruned) {
			m.Range(func(id, _ any) bool {
				a.Dead++
				m.Delete(id)
				return true
			})
		})
	})},
	{"what is scheduled goes before what is retried", "Order/DueGoByDueTimeWhereverTheyWait", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) {
			slices.SortStableFunc(a.Jobs, func(x, y broker.Job) int { return x.Failures - y.Failures })
		})
	})},
}
