package engine

import (
	"bytes"
	"runtime"
	"strings"
	"time"
)

// reportStuck tells, once each, of handlers that go on long after their
// contexts ended, and of those that have returned since.
func (s *Server) reportStuck() {
	now := time.Now()
	var events []StuckEvent
	var slots []int
	s.mu.Lock()
	for i, r := range s.slots.running {
		if r == nil || r.stuck != nil {
			continue
		}
		if cause, since := r.overdue(now, s.opts.StuckGrace); cause != nil {
			r.stuck = &StuckEvent{Job: r.Job, Cause: cause, Overdue: now.Sub(since), since: since}
			s.slots.stuck++
			slots = append(slots, i)
			events = append(events, *r.stuck)
		} else {
			s.lookout.by(r.overdueAt(s.opts.StuckGrace))
		}
	}
	returned := s.slots.unstuck
	s.slots.unstuck = nil
	headers := make([]string, len(slots))
	for n, i := range slots {
		headers[n] = s.slots.headers[i]
	}
	s.mu.Unlock()
	for _, e := range returned {
		if hook := s.opts.Hooks.Unstuck; hook != nil {
			hook(e)
		}
	}
	if len(events) == 0 {
		return
	}
	stacks := allStacks()
	for n, e := range events {
		e.Stack = stackOf(stacks, headers[n])
		s.log.Error("jobs: a handler is stuck, it goes on long after its context ended and keeps its slot",
			"queue", e.Job.Queue, "id", e.Job.ID, "type", e.Job.Type, "cause", e.Cause, "overdue",
			e.Overdue.Round(time.Millisecond), "stack", e.Stack)
		if hook := s.opts.Hooks.Stuck; hook != nil {
			hook(e)
		}
	}
}

// stop ends the context of a run, whose handler should then return.
func (s *Server) stop(r *Run, cause error, now time.Time) {
	r.Finish(cause, now)
	s.lookout.by(now.Add(s.opts.StuckGrace))
}

const maxStacks = 16 << 20 // bytes of all stacks looked at

// allStacks is the trace of every goroutine.
func allStacks() string {
	for size := 64 << 10; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size || size >= maxStacks {
			return string(buf[:n])
		}
	}
}

// stackOf finds a goroutine in all of their traces by its header, the first
// line as far as the state.
func stackOf(stacks, goroutine string) string {
	for trace := range strings.SplitSeq(stacks, "\n\n") {
		if strings.HasPrefix(trace, goroutine) {
			return trace
		}
	}
	return ""
}

// goroutineHeader is how the trace of the calling goroutine begins:
// "goroutine 12 [".
func goroutineHeader() string {
	var buf [64]byte
	head, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte{'['})
	return string(head) + "["
}
