package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// keeps changes what a keep stores; it leaves other outcomes alone.
func (p *patched) keeps(f func(worker string, s *broker.Settlement, k broker.Kept) broker.Kept) {
	p.outcomes(func(worker string, s *broker.Settlement) {
		if s.Outcome.Kind() == broker.OutcomeKeep {
			s.Outcome = broker.Keep(f(worker, s, *s.Outcome.Kept()))
		}
	})
}

// keptIDs stores in m, by ID, what was kept of jobs.
func (p *patched) keptIDs(m *sync.Map) {
	p.keeps(func(_ string, s *broker.Settlement, k broker.Kept) broker.Kept {
		m.Store(s.Job.ID, k)
		return k
	})
}

// keepVerdicts changes the verdicts of keeps.
func (p *patched) keepVerdicts(f func(*broker.Verdict)) {
	change(&p.settle, nil, func(r *broker.SettleRequest, a *[]broker.Verdict) {
		for i := range *a {
			if r.Items[i].Outcome.Kind() == broker.OutcomeKeep {
				f(&(*a)[i])
			}
		}
	})
}

var keepMutants = []mutant{
	{"what is kept is dropped", "Keep/StoresAndLeavesAllElse Keep/SurvivesALostAnswer", always(func(p *patched) {
		p.keeps(func(string, *broker.Settlement, broker.Kept) broker.Kept { return broker.Kept{} })
	})},
	{"checkpoints are text", "Keep/StoresAndLeavesAllElse", always(func(p *patched) {
		p.keeps(func(_ string, _ *broker.Settlement, k broker.Kept) broker.Kept {
			k.Checkpoint = []byte(strings.ToValidUTF8(string(k.Checkpoint), "?"))
			return k
		})
	})},
	{"a keep adds to what was kept", "Keep/StoresAndLeavesAllElse", always(func(p *patched) {
		p.keeps(func(_ string, s *broker.Settlement, k broker.Kept) broker.Kept {
			if j := p.look(time.Unix(1, 0), s.Job.Queue, s.Job.ID); j != nil && j.Kept != nil && k.Progress.IsZero() {
				k.Progress = j.Kept.Progress
			}
			return k
		})
	})},
	{"a keep is a delivery", "Keep/StoresAndLeavesAllElse", sharing(func(p *patched, m *sync.Map) {
		p.keptIDs(m)
		p.jobsIn(func(j *broker.Job) {
			if _, kept := m.Load(j.ID); kept {
				j.Deliveries++
			}
		})
	})},
	{"anybody keeps", "Keep/IsFenced", always(func(p *patched) {
		p.keeps(func(_ string, s *broker.Settlement, k broker.Kept) broker.Kept {
			if j := p.look(time.Unix(1, 0), s.Job.Queue, s.Job.ID); j != nil && j.State == broker.StateActive {
				p.settleAs(time.Unix(1, 0), j.Worker, j, broker.Keep(k))
			}
			return k
		})
	})},
	{"what was not kept is answered as if it were", "Keep/IsFenced Keep/InOneRequest Race/KeepOrRetire", always(func(p *patched) {
		change(&p.settle, func(r *broker.SettleRequest) {
			if len(r.Items) == 1 && r.Items[0].Outcome.Kind() == broker.OutcomeKeep {
				time.Sleep(time.Millisecond)
			}
		}, nil)
		p.keepVerdicts(func(v *broker.Verdict) { v.State, v.Err = broker.StateActive, nil })
	})},
	{"an older keep is applied", "Keep/RepeatIsHarmless", sharing(func(p *patched, m *sync.Map) {
		change(&p.settle, func(r *broker.SettleRequest) {
			last, ok := m.Load(r.Worker)
			if ok && r.Number < last.(int64) && r.Items[0].Outcome.Kind() == broker.OutcomeKeep {
				r.Number = last.(int64) + 1
			}
			m.Store(r.Worker, r.Number)
		}, nil)
	})},
	{"of two keeps the first applies", "Keep/InOneRequest", always(func(p *patched) {
		change(&p.settle, func(r *broker.SettleRequest) {
			r.Items = slices.Clone(r.Items)
			first := make(map[string]broker.Outcome)
			for i := range r.Items {
				s := &r.Items[i]
				if s.Outcome.Kind() != broker.OutcomeKeep {
					continue
				}
				if o, again := first[s.Job.ID]; again {
					s.Outcome = o
				} else {
					first[s.Job.ID] = s.Outcome
				}
			}
		}, nil)
	})},
	{"a keep ends the lease", "Keep/StoresAndLeavesAllElse Keep/LeavesACancelRequest", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if s.Outcome.Kind() == broker.OutcomeKeep {
				s.Outcome = broker.Release().With(*s.Outcome.Kept())
			}
		})
	})},
	{"a keep forgets that a cancel was asked for", "Keep/LeavesACancelRequest", sharing(func(p *patched, m *sync.Map) {
		p.keptIDs(m)
		p.jobsIn(func(j *broker.Job) {
			if _, kept := m.Load(j.ID); kept {
				j.CancelRequested = false
			}
		})
	})},
	{"a keep frees the unique key", "Keep/LeavesTheUniqueKey", sharing(func(p *patched, m *sync.Map) {
		p.aliased(m)
		p.keeps(func(_ string, s *broker.Settlement, k broker.Kept) broker.Kept {
			m.Store(s.Job.Unique.Key, true)
			return k
		})
	})},
	{"watchers are told of what is kept", "Keep/SendsNoEvent", func() func(*patched) {
		told := make(chan broker.Event, 100)
		return func(p *patched) {
			watch := p.watch
			p.watch = func(ctx context.Context, r broker.WatchRequest) (<-chan broker.Event, error) {
				in, err := watch(ctx, r)
				out := make(chan broker.Event, 100)
				go func() {
					defer close(out)
					for {
						select {
						case e, open := <-in:
							if !open {
								return
							}
							out <- e
						case e := <-told:
							out <- e
						}
					}
				}()
				return out, err
			}
			p.keepVerdicts(func(v *broker.Verdict) {
				told <- broker.Event{Kind: broker.EventSettled, Queue: v.Queue, ID: v.ID, State: v.State}
				time.Sleep(time.Millisecond)
			})
		}
	}},
	{"too much is cut", "Keep/IsBounded", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if k := s.Outcome.Kept(); k != nil && k.Size() > broker.MaxKept {
				s.Outcome = s.Outcome.With(broker.Kept{Checkpoint: k.Checkpoint[:100]})
			}
		})
	})},
	{"less than MaxKept is kept", "Keep/IsBounded", always(func(p *patched) {
		next := p.settle
		p.settle = func(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
			for _, s := range r.Items {
				if s.Outcome.Kept().Size() >= broker.MaxKept {
					return nil, broker.ErrTooLarge
				}
			}
			return next(ctx, r)
		}
	})},
	{"jobs come without what was kept", "Keep/ComesAgainWithTheJob Keep/SurvivesALostAnswer", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) {
			for i := range a.Jobs {
				a.Jobs[i].Kept = nil
			}
		})
	})},
	{"a redrive begins anew", "Keep/ComesAgainWithTheJob", sharing(func(p *patched, m *sync.Map) {
		p.operating(broker.OpRedrive, func(o *broker.Operation) {
			for _, ref := range o.Refs {
				m.Store(ref.ID, true)
			}
		})
		p.jobsIn(func(j *broker.Job) {
			if _, redriven := m.Load(j.ID); redriven {
				j.Kept = nil
			}
		})
	})},
	{"a retire drops what was kept", "Keep/ComesAgainWithTheJob Race/KeepOrRetire", sharing(func(p *patched, m *sync.Map) {
		change(&p.retire, nil, func(_ *broker.RetireRequest, a *broker.Retired) {
			for _, ref := range a.Released {
				m.Store(ref.ID, ref.Epoch)
			}
		})
		p.jobsIn(func(j *broker.Job) {
			if epoch, retired := m.Load(j.ID); retired && epoch == j.Epoch {
				j.Kept = nil
			}
		})
	})},
	{"a completed job shows its checkpoint", "Keep/CompleteLeavesTheProgress", sharing(func(p *patched, m *sync.Map) {
		p.keptIDs(m)
		p.jobsIn(func(j *broker.Job) {
			if k, kept := m.Load(j.ID); kept && j.State == broker.StateCompleted {
				whole := k.(broker.Kept)
				j.Kept = &whole
			}
		})
	})},
	{"a completed job shows no progress", "Keep/CompleteLeavesTheProgress Keep/GoesAlong", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) {
			if j.State == broker.StateCompleted {
				j.Kept = nil
			}
		})
	})},
	{"what was kept outlives the job", "Keep/GoesWithTheRecord", sharing(func(p *patched, m *sync.Map) {
		p.keptIDs(m)
		p.jobsIn(func(j *broker.Job) {
			if k, kept := m.Load(j.ID); kept && j.Kept == nil {
				whole := k.(broker.Kept)
				j.Kept = &whole
			}
		})
	})},
	{"a restored job begins anew", "Keep/GoesAlong", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) { r.Head.Kept = nil })
	})},
}
