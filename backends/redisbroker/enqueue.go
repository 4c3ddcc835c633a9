package redisbroker

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Bounds of one script call, which blocks the server while it runs. Longer requests are sent as
// several calls.
const (
	callJobs  = 1000
	callBytes = 4 << 20
)

// singleBytes is the largest body for which enqueue_plain.lua gets only the ID and the body: the
// queue's record stores only larger sizes.
const singleBytes = 4096

// Enqueue accepts or refuses each job on its own. §18. It takes one round trip; in a Cluster one
// to each node, at the same time. A request with more than a thousand jobs of a queue, or 4 MiB of
// them, takes one for each such part. If a part fails, what follows it for the same queue is not sent.
func (b *Broker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	if err := req.Check(); err != nil {
		return nil, broker.About(err, "enqueue", "", "")
	}
	receipts := make([]broker.Receipt, len(req.Jobs))
	var batches map[string]*enqueueBatch // nil while all jobs are of one queue
	var batch *enqueueBatch
	var calls []*enqueueBatch
	meets := false
	for i := range req.Jobs {
		meets = meets || req.Jobs[i].Meets()
	}
	for i := range req.Jobs {
		j := &req.Jobs[i]
		receipts[i] = broker.Receipt{Queue: j.Queue, ID: j.ID}
		if err := j.Check(b.Limits()); err != nil {
			receipts[i].Err = err
			continue
		}
		if batch != nil && batch.queue.name != j.Queue {
			if batches == nil {
				batches = make(map[string]*enqueueBatch)
			}
			batches[batch.queue.name] = batch
			batch = batches[j.Queue]
		}
		if kind := jobKindOf(j, meets); batch == nil || batch.full() || batch.kind != kind {
			n := min(len(req.Jobs)-i, callJobs)
			batch = &enqueueBatch{queue: b.queue(j.Queue), kind: kind, items: make([]int, 0, n), texts: newArena()}
			if batch.created, batch.recent = broker.Micros(req.Now), true; req.Now.IsZero() {
				batch.created, batch.recent = batch.queue.time()
			}
			calls = append(calls, batch)
		}
		switch batch.kind {
		case restoredJobs:
			batch.addRestored(i, j)
		case meetingJobs:
			batch.addMeeting(i, j)
		default:
			batch.add(i, j)
		}
	}
	if len(calls) == 0 {
		return receipts, broker.About(b.usable(ctx), "enqueue", "", "")
	}
	steps := make([]*step, len(calls))
	for i, batch := range calls {
		steps[i] = batch.step(nowArg(req.Now))
	}
	if err := b.inTurns(ctx, steps); err != nil {
		return nil, broker.About(err, "enqueue", "", "")
	}
	for _, batch := range calls {
		batch.texts.free()
	}
	for i, batch := range calls {
		err := steps[i].err
		switch {
		case err == nil:
			batch.receive(receipts, req, steps[i])
			if err := steps[i].lag; err != nil {
				batch.doubt(receipts, err)
			}
		case len(batch.items) == len(receipts):
			return nil, broker.About(err, "enqueue", "", "")
		default:
			batch.fail(receipts, err)
		}
	}
	return receipts, nil
}

// inTurns makes the calls of a request like run, but sends a call only after those before it for the same queue have taken
// effect. In one pipeline, the server could refuse the first call and accept the second one, since another process has
// repaired the reason meanwhile: it has loaded the scripts, or made the queue. The first one, sent again, would then be late.
func (b *Broker) inTurns(ctx context.Context, steps []*step) error {
	if len(steps) == 1 {
		return b.run(ctx, nil, steps...)
	}
	var turns [][]*step
	calls, failed := make(map[string]int), make(map[string]bool)
	for _, s := range steps {
		at := calls[s.queues[0]]
		if calls[s.queues[0]]++; at == len(turns) {
			turns = append(turns, nil)
		}
		turns[at] = append(turns[at], s)
	}
	for at, turn := range turns {
		var send []*step
		for _, s := range turn {
			if failed[s.queues[0]] {
				s.err = errEarlierPart
			} else {
				send = append(send, s)
			}
		}
		if len(send) == 0 {
			continue
		}
		if err := b.run(ctx, nil, send...); err != nil && at > 0 {
			return partly(err)
		} else if err != nil {
			return err
		}
		for _, s := range send {
			failed[s.queues[0]] = s.err != nil || s.lag != nil
		}
	}
	return nil
}

// jobKind names the script that stores a job.
type jobKind int8

const (
	newJobs      jobKind = iota
	restoredJobs         // jobs from another store
	meetingJobs          // jobs of a request in which a job may replace another one
)

// jobKindOf returns the kind of a job. meets says whether a job of the request may replace another one: then one
// script stores all new jobs of the request, since each change of the script begins another call.
func jobKindOf(j *broker.NewJob, meets bool) jobKind {
	switch {
	case j.Restore != nil:
		return restoredJobs
	case meets:
		return meetingJobs
	}
	return newJobs
}

// enqueueBatch is the part of a request that goes into one script call.
type enqueueBatch struct {
	queue   *queue
	kind    jobKind // the kind of its jobs
	items   []int   // the indexes of its jobs in the request
	texts   *arena
	named   []int // the indexes in items of jobs with options, which have a third piece
	longest int   // the size of the largest body
	all     int   // the size of all bodies, as they are stored
	created int64 // the store's time as far as this process knows it; bodies begin with it
	recent  bool  // created is recent enough, so the script need not correct it
}

func (e *enqueueBatch) full() bool {
	return len(e.items) >= callJobs || len(e.texts.buf) >= callBytes
}

// add writes a job's ID, body and options, in the form that enqueue.lua describes.
func (e *enqueueBatch) add(i int, j *broker.NewJob) {
	e.items = append(e.items, i)
	t := e.texts
	t.addID(j.ID)
	t.buf = binary.BigEndian.AppendUint64(t.buf, uint64(e.created))
	from := len(t.buf)
	t.buf = broker.AppendBody(t.buf, &j.Body)
	e.longest = max(e.longest, len(t.buf)-from)
	e.all += createdSize + len(t.buf) - from
	t.cut()
	u := &j.Body.Unique
	if j.Delay == 0 && j.RunAt.IsZero() && j.Body.Priority == broker.PriorityNormal && u.Key == "" && j.Body.Key == "" {
		return
	}
	e.named = append(e.named, len(e.items)-1)
	t.addOptions(j)
}

func (a *arena) addOptions(j *broker.NewJob) {
	u := &j.Body.Unique
	a.buf = append(a.buf, '0'+byte(j.Body.Priority))
	a.buf = append(a.buf, when(j.Delay, j.RunAt)...)
	a.buf = append(a.buf, '\n', '0'+byte(u.Mode))
	a.buf = strconv.AppendInt(a.buf, broker.DurationMicros(u.TTL), 10)
	a.buf = append(a.buf, '\n')
	if j.TakesKey() {
		a.buf = append(a.buf, u.Key...)
	}
	a.buf = append(append(a.buf, '\n'), j.Body.Key...)
	a.cut()
}

// step returns the call for the batch. It uses enqueue_plain.lua if no job has options, and the queue is not known to need
// the longer script.
func (e *enqueueBatch) step(now string) *step {
	t, n := e.texts, len(e.items)
	s := &step{queues: []string{e.queue.name}, create: true, now: now, rows: t.rows}
	pieces := t.seal()
	switch {
	case e.kind == restoredJobs:
		s.script, s.args = restoreScript, e.texts.all()
	case e.kind == meetingJobs:
		s.script, s.args = meetScript, e.texts.all()
	case len(e.named) > 0 || e.queue.isLimited():
		e.careful(s)
	case n == 1 && e.recent && now == "0" && e.all <= singleBytes:
		s.script, s.batch = plainScript, e
		t.args = append(t.args, &pieces[0], &pieces[1])
		s.args = t.args
	default:
		s.script, s.batch = plainScript, e
		t.args = append(slices.Grow(t.args, 4+2*n+len(t.rows)), now, !e.recent, e.longest, e.all)
		for _, r := range t.rows {
			t.args = append(t.args, r.jobs)
			for i := range pieces[:2*r.jobs] {
				t.args = append(t.args, &pieces[i])
			}
			pieces = pieces[2*r.jobs:]
		}
		s.args = t.args
	}
	return s
}

// careful turns s into a call of enqueue.lua, with IDs, bodies, and the options of jobs that have
// some. The bodies do not have the time of creation; the script adds it.
func (e *enqueueBatch) careful(s *step) {
	s.script, s.batch = enqueueScript, nil
	t, n := e.texts, len(e.items)
	pieces := t.pieces
	args := slices.Grow(append(t.args[:0], n), 2*(n+len(e.named)))[:1+2*n]
	named := e.named
	for i := range n {
		pieces[1] = pieces[1][createdSize:]
		args[1+i], args[1+n+i] = &pieces[0], &pieces[1]
		if pieces = pieces[2:]; len(named) > 0 && named[0] == i {
			args = append(args, i+1, &pieces[0])
			pieces, named = pieces[1:], named[1:]
		}
	}
	s.args, t.args = args, args
}

func (e *enqueueBatch) fail(receipts []broker.Receipt, err error) {
	for _, i := range e.items {
		receipts[i].Err = broker.About(err, "enqueue", e.queue.name, receipts[i].ID)
	}
}

// receive fills in the receipts. The answer has only the refusals: every other job was accepted.
func (e *enqueueBatch) receive(receipts []broker.Receipt, req broker.EnqueueRequest, s *step) {
	now, up := s.at, s.at
	if !req.Now.IsZero() {
		up = broker.Micros(req.Now)
	} else if now > 0 {
		e.queue.told(now)
	}
	for _, i := range e.items {
		r, j := &receipts[i], &req.Jobs[i]
		if e.kind == restoredJobs {
			accepted(r, j, now, up)
			continue
		}
		r.State = broker.StatePending
		due := broker.Micros(j.RunAt)
		if j.Delay > 0 {
			due = up + broker.DurationMicros(j.Delay)
		}
		if due > now {
			r.State, r.RunAt = broker.StateScheduled, broker.FromMicros(due)
		}
	}
	for refusal := s.reply; len(refusal) >= 3; refusal = refusal[3:] {
		n := number(refusal[0]) - 1
		if n < 0 || n >= int64(len(e.items)) {
			continue
		}
		r, j := &receipts[e.items[n]], &req.Jobs[e.items[n]]
		r.State, r.RunAt = broker.StateNone, time.Time{}
		var err error
		switch number(refusal[1]) {
		case 2:
			err = broker.QueueFull(fullness(refusal[2]))
		case 5:
			err = broker.BytesFull(fullness(refusal[2]))
		case 6:
			depth, limit := fullness(refusal[2])
			err = broker.KeyFull(j.Body.Key, depth, limit)
		case 7:
			ordered := broker.Policy{Ordered: broker.OrderStop}
			err = ordered.Admit(j)
		case 3:
			r.Holder = text(refusal[2])
			err = broker.Duplicate(r.ID, r.Holder)
		case 4:
			r.Holder = text(refusal[2])
			err = broker.Held(r.Holder)
		case 8:
			r.Holder, err = text(refusal[2]), broker.ErrNewerForm
		case 9:
			r.Holder, err = text(refusal[2]), broker.ErrMalformed
		case 10:
			r.State, r.RunAt, r.ID = placed(text(refusal[2]))
			r.Holder, r.Replaced = r.ID, true
		case 11:
			_, r.RunAt, r.Holder = placed(text(refusal[2]))
			r.State = broker.StateWaiting
		default:
			r.Holder = r.ID
			err = broker.Duplicate(r.ID, r.ID)
		}
		r.Err = broker.About(err, "enqueue", r.Queue, r.ID)
	}
}

// fullness reads an amount and the limit that it has reached.
func fullness(v any) (is, limit int64) {
	a, b, _ := strings.Cut(text(v), "/")
	is, _ = strconv.ParseInt(a, 10, 64)
	limit, _ = strconv.ParseInt(b, 10, 64)
	return is, limit
}
