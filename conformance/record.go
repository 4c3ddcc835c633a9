package conformance

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// kept is how many calls a failure shows.
const kept = 30

// history is what was lately asked of a store, over all its handles.
type history struct {
	start    time.Time
	seed     uint64 // of a random sequence, or zero
	mu       sync.Mutex
	lines    []string
	dropped  int
	handles  int
	sends    int
	sent     map[string]time.Time // queue and ID; when first
	racing   bool                 // callers that do not know of each other send the same IDs
	panicked string               // the first panic of the backend, with its stack
	late     bool                 // what is sent is a first send that comes after its own repeat
}

func (h *history) add(handle int, now time.Time, err error, format string, args ...any) {
	at := "  real"
	if !now.IsZero() {
		at = fmt.Sprintf("%+v", now.Sub(h.start))
		if !strings.HasPrefix(at, "-") {
			at = "+" + at
		}
	}
	line := fmt.Sprintf("    %-6s h%d %s", at, handle, fmt.Sprintf(format, args...))
	if err != nil {
		line += " error: " + err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) == kept {
		h.dropped++
		h.lines = append(h.lines[:0], h.lines[1:]...)
	}
	h.lines = append(h.lines, line)
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	if h.dropped > 0 {
		fmt.Fprintf(&b, "    … %d earlier ones\n", h.dropped)
	}
	for _, line := range h.lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (h *history) stack() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.panicked
}

func (h *history) record(b broker.Broker) broker.Broker {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handles++
	return &recorder{Broker: b, h: h, handle: h.handles}
}

// recorder notes each call and its answer. It shows IDs, states and sizes,
// never payloads.
type recorder struct {
	broker.Broker
	h      *history
	handle int
}

// Unwrap lets an audit ask what the store can do beyond the contract.
func (r *recorder) Unwrap() broker.Broker { return r.Broker }

// freshen says of jobs that are sent for the first time that they are, as
// clients do of IDs that they drew, except in every fourth call: a store may
// take another way with such jobs, and keeps the same promises on both.
func (h *history) freshen(jobs []broker.NewJob) []broker.NewJob {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sent == nil {
		h.sent = make(map[string]time.Time)
	}
	h.sends++
	jobs = slices.Clone(jobs)
	for i := range jobs {
		j := &jobs[i]
		name := j.Queue + "\x00" + j.ID
		drawn, sent := h.sent[name]
		if !sent {
			drawn = time.Now()
			h.sent[name] = drawn
		}
		if h.late || h.sends%4 != 0 && !h.racing && !sent && !j.Body.GivenID && j.Restore == nil {
			j.Drawn = drawn
		}
	}
	return jobs
}

func (h *history) setLate(late bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = late
}

// caught turns a panic of the backend into an error of its call, and keeps it
// for the verdict: one rule fails, and the others go on.
func (r *recorder) caught(err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = fmt.Errorf("panic in the backend: %v", p)
	r.h.add(r.handle, time.Time{}, *err, "the call")
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if r.h.panicked == "" {
		r.h.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
	}
}

func (r *recorder) Enqueue(ctx context.Context, req broker.EnqueueRequest) (_ []broker.Receipt, err error) {
	defer r.caught(&err)
	req.Jobs = r.h.freshen(req.Jobs)
	receipts, err := r.Broker.Enqueue(ctx, req)
	var parts list
	for i, j := range req.Jobs {
		part := fmt.Sprintf("%s/%s", j.Queue, j.ID)
		if u := j.Body.Unique; u.Key != "" {
			part += " unique " + u.Key
		}
		if i < len(receipts) {
			part += "=" + receipts[i].State.String()
			if e := receipts[i].Err; e != nil {
				part += " " + e.Error()
			}
		}
		parts.add(part)
	}
	r.h.add(r.handle, req.Now, err, "Enqueue(%s)", parts)
	return receipts, err
}

func (r *recorder) Claim(ctx context.Context, req broker.ClaimRequest) (_ broker.Claimed, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Claim(ctx, req)
	var queues list
	for _, s := range req.Queues {
		queues.add(fmt.Sprintf("%s≤%d", s.Queue, s.Max))
	}
	settle := ""
	if len(req.Settle.Items) > 0 {
		settle = " after " + settled(req.Settle, got.Verdicts, got.SettleErr)
	}
	if req.Wait > 0 {
		settle += fmt.Sprintf(" waiting %v", req.Wait)
	}
	due := ""
	if !got.NextDue.IsZero() {
		due = fmt.Sprintf(" next due %+v", got.NextDue.Sub(got.Now))
	}
	r.h.add(r.handle, req.Now, err, "Claim(%s ≤%d [%s]%s)=%s more=%t%s", req.Worker, req.Max, queues, settle, jobList(got.Jobs), got.More, due)
	return got, err
}

func (r *recorder) Renew(ctx context.Context, req broker.RenewRequest) (_ broker.Renewed, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Renew(ctx, req)
	r.h.add(r.handle, req.Now, err, "Renew(%s %v for %v register=%t)=lost %t held %v cancel %v", req.Worker, req.Queues, req.Lease, req.Register, got.Lost, got.Held, got.Cancel)
	return got, err
}

func (r *recorder) Retire(ctx context.Context, req broker.RetireRequest) (_ broker.Retired, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Retire(ctx, req)
	r.h.add(r.handle, req.Now, err, "Retire(%s %v)=%v", req.Worker, req.Queues, got.Released)
	return got, err
}

func (r *recorder) Settle(ctx context.Context, req broker.SettleRequest) (_ []broker.Verdict, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Settle(ctx, req)
	r.h.add(r.handle, req.Now, err, "%s", settled(req, got, nil))
	return got, err
}

func (r *recorder) Reclaim(ctx context.Context, req broker.ReclaimRequest) (_ broker.Claimed, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Reclaim(ctx, req)
	r.h.add(r.handle, req.Now, err, "Reclaim(%s ≤%d %v)=%s more=%t", req.Worker, req.Max, req.Queues, jobList(got.Jobs), got.More)
	return got, err
}

func (r *recorder) Prune(ctx context.Context, req broker.PruneRequest) (_ broker.Pruned, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Prune(ctx, req)
	r.h.add(r.handle, req.Now, err, "Prune(≤%d %v)=%+v", req.Max, req.Queues, got)
	return got, err
}

func (r *recorder) Find(ctx context.Context, q broker.Query) (_ broker.Page, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Find(ctx, q)
	what := fmt.Sprintf("state %v worker %q key %q", q.State, q.Worker, q.Key)
	if len(q.IDs) > 0 {
		what = fmt.Sprintf("%.200q", q.IDs)
	}
	r.h.add(r.handle, q.Now, err, "Find(%s %s ≤%d)=%s cursor=%t", q.Queue, what, q.Limit, jobList(got.Jobs), got.Cursor != "")
	return got, err
}

func (r *recorder) Queues(ctx context.Context, req broker.QueuesRequest) (_ broker.QueuesReply, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Queues(ctx, req)
	var parts list
	for _, q := range got.Queues {
		parts.add(fmt.Sprintf("%s%v", q.Name, q.Counts))
	}
	r.h.add(r.handle, req.Now, err, "Queues(%v)=%s", req.Names, parts)
	return got, err
}

func (r *recorder) Operate(ctx context.Context, op broker.Operation) (_ []broker.OperationResult, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Operate(ctx, op)
	var parts list
	for i, ref := range op.Refs {
		part := fmt.Sprintf("%s/%s@%d", ref.Queue, ref.ID, ref.Epoch)
		if i < len(got) {
			part += "=" + got[i].State.String()
			if got[i].Err != nil {
				part += " " + got[i].Err.Error()
			}
		}
		parts.add(part)
	}
	r.h.add(r.handle, op.Now, err, "Operate(%v %s)", op.Kind, parts)
	return got, err
}

func (r *recorder) Policy(ctx context.Context, req broker.PolicyRequest) (_ broker.Policy, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Policy(ctx, req)
	r.h.add(r.handle, time.Time{}, err, "Policy(%s)=%+v", req.Queue, got)
	return got, err
}

func (r *recorder) Mark(ctx context.Context, req broker.MarkRequest) (_ broker.Marked, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Mark(ctx, req)
	r.h.add(r.handle, req.Now, err, "Mark(action %d %s owner %s fence %d ttl %v)=held %t by %q fence %d", req.Action, req.Name, req.Owner, req.Fence, req.TTL, got.Held, got.Owner, got.Fence)
	return got, err
}

func (r *recorder) Watch(ctx context.Context, req broker.WatchRequest) (_ <-chan broker.Event, err error) {
	defer r.caught(&err)
	got, err := r.Broker.Watch(ctx, req)
	r.h.add(r.handle, time.Time{}, err, "Watch(%v %v)", req.Queues, req.Kinds)
	return got, err
}

func (r *recorder) Close() error {
	err := r.Broker.Close()
	r.h.add(r.handle, time.Time{}, err, "Close()")
	return err
}

func settled(req broker.SettleRequest, verdicts []broker.Verdict, err error) string {
	var parts list
	for i, item := range req.Items {
		part := "nothing"
		if item.Job != nil {
			part = fmt.Sprintf("%s/%s@%d %v", item.Job.Queue, item.Job.ID, item.Job.Epoch, item.Outcome.Kind())
		}
		if i < len(verdicts) {
			part += "=" + verdicts[i].State.String()
			if verdicts[i].Err != nil {
				part += " " + verdicts[i].Err.Error()
			}
		}
		parts.add(part)
	}
	s := fmt.Sprintf("Settle(%s #%d %s)", req.Worker, req.Number, parts)
	if err != nil {
		s += " error: " + err.Error()
	}
	return s
}

func jobList(jobs []broker.Job) string {
	var parts list
	for i := range jobs {
		j := &jobs[i]
		parts.add(fmt.Sprintf("%s/%s@%d %v", j.Queue, j.ID, j.Epoch, j.State))
	}
	return parts.String()
}

// list joins a few parts and counts the rest.
type list struct {
	shown []string
	more  int
}

func (l *list) add(s string) {
	if len(l.shown) < 8 {
		l.shown = append(l.shown, s)
	} else {
		l.more++
	}
}

func (l list) String() string {
	s := strings.Join(l.shown, ", ")
	if l.more > 0 {
		s += fmt.Sprintf(" and %d more", l.more)
	}
	if s == "" {
		return "nothing"
	}
	return s
}
