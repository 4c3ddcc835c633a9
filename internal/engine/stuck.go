package engine

import (
	"bytes"
	"runtime"
	"strings"
	"time"
)

// stuckHandlers are the handlers reported as stuck. Guarded by Server.mu.
type stuckHandlers struct {
	count      int
	unstuck    []StuckEvent // of those that have returned since the last report
	goroutines []string     // how the traces of the slots' goroutines begin, by slot
}

// goroutineIs records the goroutine of a slot.
func (k *stuckHandlers) goroutineIs(slot int, header string) {
	for len(k.goroutines) <= slot {
		k.goroutines = append(k.goroutines, "")
	}
	k.goroutines[slot] = header
}

// returned reports whether a run whose handler has returned was stuck.
func (k *stuckHandlers) returned(r *Run, now time.Time) bool {
	if r.stuck == nil {
		return false
	}
	k.count--
	r.stuck.Overdue = now.Sub(r.stuck.since)
	k.unstuck = append(k.unstuck, *r.stuck)
	return true
}

// reportStuck reports each handler that runs long after its context ended, once, and each
// stuck handler that has returned.
func (s *Server) reportStuck() {
	now := time.Now()
	var events []StuckEvent
	var goroutines []string
	s.mu.Lock()
	for i, r := range s.slots.running {
		if r == nil || r.stuck != nil {
			continue
		}
		if cause, since := r.overdue(now, s.opts.StuckGrace); cause != nil {
			r.stuck = &StuckEvent{Job: r.Job, Cause: cause, Overdue: now.Sub(since), since: since}
			s.stuck.count++
			events = append(events, *r.stuck)
			goroutines = append(goroutines, s.stuck.goroutines[i])
		} else {
			s.lookout.by(r.overdueAt(s.opts.StuckGrace))
		}
	}
	unstuck := s.stuck.unstuck
	s.stuck.unstuck = nil
	s.mu.Unlock()
	for _, e := range unstuck {
		if hook := s.opts.Hooks.Unstuck; hook != nil {
			hook(e)
		}
	}
	if len(events) == 0 {
		return
	}
	stacks := allStacks()
	for n, e := range events {
		e.Stack = stackOf(stacks, goroutines[n])
		s.log.Error("jobs: a handler is stuck: it runs long after its context ended, and keeps its slot",
			"queue", e.Job.Queue, "id", e.Job.ID, "type", e.Job.Type, "cause", e.Cause, "overdue",
			e.Overdue.Round(time.Millisecond), "stack", e.Stack)
		if hook := s.opts.Hooks.Stuck; hook != nil {
			hook(e)
		}
	}
}

// stop ends the context of a run. If its handler does not return, it will be reported as
// stuck.
func (s *Server) stop(r *Run, cause error, now time.Time) {
	r.Finish(cause, now)
	s.lookout.by(now.Add(s.opts.StuckGrace))
}

const maxStacks = 16 << 20 // bytes of stacks that are read at most, to bound the memory

// allStacks returns the traces of all goroutines.
func allStacks() string {
	for size := 64 << 10; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size || size >= maxStacks {
			return string(buf[:n])
		}
	}
}

// stackOf returns the trace that begins with a header, or "".
func stackOf(stacks, goroutine string) string {
	for trace := range strings.SplitSeq(stacks, "\n\n") {
		if strings.HasPrefix(trace, goroutine) {
			return trace
		}
	}
	return ""
}

// goroutineHeader returns the beginning of the calling goroutine's trace:
// "goroutine 12 [".
func goroutineHeader() string {
	var buf [64]byte
	head, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte{'['})
	return string(head) + "["
}

// overdueAt returns when overdue will return a cause, or zero if that is unknown.
func (r *Run) overdueAt(grace time.Duration) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.end
	if r.cause != nil {
		end = earliest(end, r.ended)
	}
	if !end.IsZero() {
		end = end.Add(grace)
	}
	for c := r.bounds; c != nil; c = c.next {
		end = earliest(end, c.overdueAt(grace))
	}
	return end
}

// overdue returns why and since when the handler should have returned, if it has overrun
// that time by grace, or the end of an open bound by the grace of the bound. Otherwise it
// returns nil.
func (r *Run) overdue(now time.Time, grace time.Duration) (cause error, since time.Time) {
	if cause, since = r.Over(now); cause != nil && now.Sub(since) >= grace {
		return cause, since
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cause, since = nil, time.Time{}
	for c := r.bounds; c != nil; c = c.next {
		if at := c.overdueAt(grace); !at.IsZero() && !now.Before(at) {
			cause, since = ErrTimeout, earliest(since, c.end)
		}
	}
	return cause, since
}
