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

// kept is the number of calls that a failure shows.
const kept = 30

// history records the last calls of a store, over all its handles.
type history struct {
	start    time.Time
	seed     uint64 // of a random sequence, or zero
	mu       sync.Mutex
	lines    []string
	dropped  int
	handles  int
	sends    int
	sent     map[string]bool // by queue and ID
	racing   bool            // independent callers send the same IDs
	panicked string          // the first panic of the backend, with its stack
	late     bool            // jobs that are now sent are first sends that arrive after their own repeat
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
	r := &recorder{h: h, handle: h.handles}
	r.Broker = broker.Wrap(b, r.around)
	return r
}

// recorder records each call and its answer, without payloads.
type recorder struct {
	broker.Broker
	h      *history
	handle int
}

// freshen sets FirstSend of jobs that are sent for the first time, as clients do
// for the IDs that they generate. It leaves out every fourth call: a store may have
// a fast path for first sends, and must keep the same promises on both paths.
func (h *history) freshen(jobs []broker.NewJob) []broker.NewJob {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sent == nil {
		h.sent = make(map[string]bool)
	}
	h.sends++
	jobs = slices.Clone(jobs)
	for i := range jobs {
		j := &jobs[i]
		name := j.Queue + "\x00" + j.ID
		again := h.sent[name]
		h.sent[name] = true
		j.FirstSend = j.FirstSend || h.late || h.sends%4 != 0 && !h.racing && !again && !j.Body.GivenID && j.Restore == nil
	}
	return jobs
}

func (h *history) setLate(late bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = late
}

// caught turns a panic of the backend into an error of its call, and keeps it
// for the verdict: one rule fails, and the others continue.
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

// around makes a call and records it with its answer.
func (r *recorder) around(ctx context.Context, c *broker.Call, next func(context.Context) error) (err error) {
	defer r.caught(&err)
	if req, ok := c.Request.(*broker.EnqueueRequest); ok {
		req.Jobs = r.h.freshen(req.Jobs)
	}
	err = next(ctx)
	if now, text := describe(c); text != "" {
		r.h.add(r.handle, now, err, "%s", text)
	}
	return err
}

// describe returns the time and the text under which a call is recorded.
func describe(c *broker.Call) (now time.Time, text string) {
	switch req := c.Request.(type) {
	case *broker.EnqueueRequest:
		return req.Now, enqueued(req, *c.Reply.(*[]broker.Receipt))
	case *broker.ClaimRequest:
		return req.Now, claimed(req, c.Reply.(*broker.Claimed))
	case *broker.RenewRequest:
		got := c.Reply.(*broker.Renewed)
		return req.Now, fmt.Sprintf("Renew(%s %v for %v register=%t)=lost %t held %v cancel %v",
			req.Worker, req.Queues, req.Lease, req.Register, got.Lost, got.Held, got.Cancel)
	case *broker.RetireRequest:
		return req.Now, fmt.Sprintf("Retire(%s %v)=%v", req.Worker, req.Queues, c.Reply.(*broker.Retired).Released)
	case *broker.SettleRequest:
		return req.Now, settled(*req, *c.Reply.(*[]broker.Verdict), nil)
	case *broker.ReclaimRequest:
		got := c.Reply.(*broker.Claimed)
		return req.Now, fmt.Sprintf("Reclaim(%s ≤%d %v)=%s more=%t", req.Worker, req.Max, req.Queues, jobList(got.Jobs), got.More)
	case *broker.PruneRequest:
		return req.Now, fmt.Sprintf("Prune(≤%d %v)=%+v", req.Max, req.Queues, *c.Reply.(*broker.Pruned))
	case *broker.Query:
		got, what := c.Reply.(*broker.Page), fmt.Sprintf("state %v worker %q key %q", req.State, req.Worker, req.Key)
		if len(req.IDs) > 0 {
			what = fmt.Sprintf("%.200q", req.IDs)
		}
		return req.Now, fmt.Sprintf("Find(%s %s ≤%d)=%s cursor=%t", req.Queue, what, req.Limit, jobList(got.Jobs), got.Cursor != "")
	case *broker.QueuesRequest:
		var parts list
		for _, q := range c.Reply.(*broker.QueuesReply).Queues {
			parts.add(fmt.Sprintf("%s%v", q.Name, q.Counts))
		}
		return req.Now, fmt.Sprintf("Queues(%v)=%s", req.Names, parts)
	case *broker.Operation:
		return req.Now, operated(req, *c.Reply.(*[]broker.OperationResult))
	case *broker.PolicyRequest:
		return now, fmt.Sprintf("Policy(%s)=%s", named(req), rulesOf(c.Reply.(*broker.Policy)))
	case *broker.KeysRequest:
		var parts list
		for _, k := range c.Reply.(*broker.KeysReply).Keys {
			parts.add(fmt.Sprintf("%q %d pending, %d active, depth %d %v head %q", k.Key, k.Pending, k.Active, k.Depth, k.Block, k.Head))
		}
		return req.Now, fmt.Sprintf("Keys(%s %.200q ≤%d)=%s cursor=%t", req.Queue, req.Names, req.Limit, parts,
			c.Reply.(*broker.KeysReply).Cursor != "")
	case *broker.MarkRequest:
		got := c.Reply.(*broker.Marked)
		return req.Now, fmt.Sprintf("Mark(action %d %s owner %s fence %d ttl %v)=held %t by %q fence %d",
			req.Action, req.Name, req.Owner, req.Fence, req.TTL, got.Held, got.Owner, got.Fence)
	case *broker.WatchRequest:
		return now, fmt.Sprintf("Watch(%v %v)", req.Queues, req.Kinds)
	}
	return now, ""
}

// named returns the queue and key of a policy request, and what it changes.
func named(req *broker.PolicyRequest) string {
	name := req.Queue
	if req.Key != "" {
		name = fmt.Sprintf("%s, key %q", name, req.Key)
	}
	for _, c := range req.Changes() {
		name += fmt.Sprintf(" %s=%d", c.Rule.Name, c.Value)
	}
	return name
}

// rulesOf formats the rules of a policy that are set.
func rulesOf(p *broker.Policy) string {
	var parts list
	for _, r := range broker.Rules() {
		if n := r.Of(p); n != 0 {
			parts.add(fmt.Sprintf("%s %d", r.Name, n))
		}
	}
	return parts.String()
}

func enqueued(req *broker.EnqueueRequest, receipts []broker.Receipt) string {
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
	return fmt.Sprintf("Enqueue(%s)", parts)
}

func claimed(req *broker.ClaimRequest, got *broker.Claimed) string {
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
	return fmt.Sprintf("Claim(%s ≤%d [%s]%s)=%s more=%t%s", req.Worker, req.Max, queues, settle, jobList(got.Jobs), got.More, due)
}

func operated(op *broker.Operation, results []broker.OperationResult) string {
	var parts list
	for i, ref := range op.Refs {
		part := fmt.Sprintf("%s/%s@%d", ref.Queue, ref.ID, ref.Epoch)
		if i < len(results) {
			part += "=" + results[i].State.String()
			if results[i].Err != nil {
				part += " " + results[i].Err.Error()
			}
		}
		parts.add(part)
	}
	return fmt.Sprintf("Operate(%v %s)", op.Kind, parts)
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

// list joins the first parts and counts the rest.
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
