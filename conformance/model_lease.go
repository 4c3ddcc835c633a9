package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func (m *model) claim(req broker.ClaimRequest, got broker.Claimed, err error) error {
	if len(req.Settle.Items) > 0 {
		if e := m.settle(req.Settle, got.Verdicts, got.SettleErr); e != nil {
			return e
		}
	}
	gone, maybe, at, left := false, false, 0, req.Max
	for _, s := range req.Queues {
		q := m.queue(s.Queue)
		w := q.workers[req.Worker]
		if w == nil || w.ended {
			full, _ := m.full(q)
			asked := len(req.Queues) == 1 || left > 0 && !full && !got.More && len(m.startable(q)) > 0
			gone, maybe = gone || asked, true
			continue
		}
		took, most := 0, min(s.Max, left)
		for ; at < len(got.Jobs) && got.Jobs[at].Queue == s.Queue && took < most; at++ {
			if e := m.give(q, req.Worker, &got.Jobs[at]); e != nil {
				return e
			}
			took++
		}
		left -= took
		if took == 0 && most > 0 && !got.More {
			if at := m.opens(q); !at.IsZero() && (got.NextDue.IsZero() || got.NextDue.After(at)) {
				return fmt.Errorf("claim: NextDue %v, although %s gives jobs again at %v", got.NextDue, s.Queue, at)
			}
		}
		if full, _ := m.full(q); full || took == 0 && (most == 0 || got.More) {
			continue // the claim may not have looked at this queue
		}
		for _, j := range q.jobs {
			if j.ready(m.now) {
				j.last = min(j.last, m.count+1) // this claim saw that it is due
			}
		}
		q.flow.fresh = q.flow.fresh && got.More
		if others := m.startable(q); len(others) > 0 && took < most && !got.More {
			return fmt.Errorf("claim: %d jobs of %s and no More, although others are ready, like %s", took, s.Queue, others[0].ID)
		}
	}
	if req.Max > 0 && len(got.Jobs) == 0 && !got.More && !got.NextDue.IsZero() && !got.NextDue.After(m.now) {
		return fmt.Errorf("claim: no job, no More, and NextDue %v, which has passed", got.NextDue)
	}
	if e := within(req.ByteLimit(), got.Jobs, len(req.Queues)); e != nil {
		return e
	}
	if at < len(got.Jobs) {
		return fmt.Errorf("claim: job %s of %s, although it is not that queue's turn, or not in its share", got.Jobs[at].ID, got.Jobs[at].Queue)
	}
	var want error
	if gone || maybe && err != nil {
		want = broker.ErrWorkerGone
	}
	return answer("claim", err, want)
}

// within checks that an answer ends with the job that reaches the limit of bytes.
// If a store asks each queue separately, each may add one job beyond the limit (§13).
func within(most int, jobs []broker.Job, parts int) error {
	size := 0
	for i := range jobs {
		if size >= most && i >= parts {
			return fmt.Errorf("%d jobs, although the first %d have %d bytes of at most %d", len(jobs), i, size, most)
		}
		size += len(jobs[i].Payload)
	}
	return nil
}

// give leases a job, if it may be claimed next.
func (m *model) give(q *modelQueue, worker string, got *broker.Job) error {
	j := q.jobs[got.ID]
	if j == nil || !j.ready(m.now) || q.policy.Paused {
		return fmt.Errorf("claim of %s, which is not ready (paused %t)", got.ID, q.policy.Paused)
	}
	others := m.startable(q)
	if full, _ := m.full(q); full || !slices.Contains(others, j) {
		why, _ := m.block(q, j.Key)
		return fmt.Errorf("claim of %s, which a limit keeps back (the queue's: %t, its key's: %v)", j.ID, full, why)
	}
	for _, o := range others {
		inTurn := q.policy.PriorityRound > 0 && o.Priority != j.Priority
		if o != j && o.before(j) && !inTurn && !(q.flow.fresh && o.Key != j.Key) {
			return fmt.Errorf("claim of %s, before which %s goes\n%s\n%s", j.ID, o.ID, j.place(), o.place())
		}
	}
	if m.turns {
		q.wait(others)
		if e := cmp.Or(q.turn(j), q.round(j, others)); e != nil {
			return e
		}
	}
	m.start(q, j)
	q.totals.Claimed++
	j.State, j.RunAt, j.Worker = broker.StateActive, time.Time{}, worker
	if j.Unique.Mode == untilStarted {
		m.freeKey(q, j)
	}
	return j.differs(got)
}

func (m *model) settle(req broker.SettleRequest, verdicts []broker.Verdict, err error) error {
	return m.inOneCall(func() error { return m.settled(req, verdicts, err) })
}

func (m *model) settled(req broker.SettleRequest, verdicts []broker.Verdict, err error) error {
	if err != nil || len(verdicts) != len(req.Items) {
		return fmt.Errorf("settle: %d verdicts and error %v, want %d", len(verdicts), err, len(req.Items))
	}
	first := make(map[*modelQueue]int64) // the worker's last number before this request
	nth := make(map[*modelQueue]int)
	for i, item := range req.Items {
		q := m.queue(item.Job.Queue)
		w := q.workers[req.Worker]
		if w == nil {
			w = new(modelWorker)
		}
		if _, seen := first[q]; !seen {
			if first[q] = w.number; req.Number > w.number {
				w.number, w.verdicts = req.Number, nil
			}
		}
		want := broker.Verdict{Queue: q.name, ID: item.Job.ID, Err: broker.ErrLeaseLost}
		switch {
		case req.Number == first[q]:
			want = w.verdicts[nth[q]]
			nth[q]++
		case req.Number > first[q]:
			if j := q.jobs[item.Job.ID]; j != nil && j.State == broker.StateActive && j.Worker == req.Worker && j.Epoch == item.Job.Epoch {
				want.State, want.Err = m.apply(q, j, item.Outcome, req.History), nil
				if want.State != broker.StateActive {
					q.totals.took(&item)
				}
			}
			w.verdicts = append(w.verdicts, want)
		}
		v := verdicts[i]
		if e := answer("settle of "+v.ID, v.Err, want.Err); e != nil {
			return e
		}
		if v.ID != want.ID || v.Queue != want.Queue || v.Err == nil && v.State != want.State {
			return fmt.Errorf("settle: verdict %+v, want %+v", v, want)
		}
	}
	return nil
}

// apply applies an outcome to a leased job.
func (m *model) apply(q *modelQueue, j *modelJob, o broker.Outcome, history int) broker.State {
	if j.CancelRequested {
		o = o.IfCancelRequested()
	}
	before := j.Head
	j.Head = o.Apply(j.Head, m.now, history)
	q.totals.ended(o.Kind(), &before, &j.Head)
	if o.Kind() == broker.OutcomeKeep {
		return o.State()
	}
	j.Worker, j.CancelRequested = "", false
	switch state := o.State(); state {
	case broker.StatePending:
		m.pending(j, o.Front())
	case broker.StateRetry:
		m.wait(j, state, m.now.Add(o.Delay()))
	default:
		m.end(q, j, state)
	}
	return o.State()
}

func (m *model) reclaim(req broker.ReclaimRequest, got broker.Claimed, err error) error {
	q := m.queue(req.Queues[0])
	if w := q.workers[req.Worker]; w == nil || w.ended || !m.now.Before(w.until) {
		if len(got.Jobs) > 0 {
			return fmt.Errorf("reclaim: jobs for %s, which is gone", req.Worker)
		}
		return answer("reclaim", err, broker.ErrWorkerGone)
	}
	for _, w := range q.workers {
		w.ended = w.ended || !m.now.Before(w.until)
	}
	for i := range got.Jobs {
		j := q.jobs[got.Jobs[i].ID]
		if j == nil || j.State != broker.StateActive || !q.workers[j.Worker].ended {
			return fmt.Errorf("reclaim of %s, although the leases of its worker did not run out", got.Jobs[i].ID)
		}
		j.Head, j.Worker = j.Head.Moved(), req.Worker
		if e := j.differs(&got.Jobs[i]); e != nil {
			return e
		}
	}
	if e := within(req.ByteLimit(), got.Jobs, 1); e != nil {
		return e
	}
	left := slices.ContainsFunc(q.list(broker.StateActive), func(j *modelJob) bool { return q.workers[j.Worker].ended })
	if left && !got.More && len(got.Jobs) < req.Max {
		return fmt.Errorf("reclaim: %d jobs and no More, although others are left", len(got.Jobs))
	}
	return answer("reclaim", err, nil)
}

func (q *modelQueue) list(state broker.State) []*modelJob {
	var jobs []*modelJob
	for _, j := range q.jobs {
		if j.State == state {
			jobs = append(jobs, j)
		}
	}
	return jobs
}
