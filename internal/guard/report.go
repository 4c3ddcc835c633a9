package guard

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	reportEvery = 10 * time.Second // between two lines about the same
	maxReported = 1000             // subjects told apart
	others      = "(others)"       // the rest of them
)

// Reports bounds what is logged about things that can happen with every job:
// one line for each subject every ten seconds. What was left out is counted. The
// zero value is ready to use, from any goroutine.
type Reports struct {
	// Waiting, if it is set, is told when Flush will have something to say. It is
	// called under a lock, and has to be quick.
	Waiting func(time.Time)

	mu   sync.Mutex
	last map[string]*reported
}

type reported struct {
	at      time.Time
	leftOut int // lines left out since
}

// Report writes a line to log unless there was one about subject of late.
func (r *Reports) Report(log *slog.Logger, subject string, level slog.Level, text string, args ...any) {
	due, leftOut := r.due(subject, time.Now())
	if !due {
		return
	}
	if leftOut > 0 {
		args = append(args[:len(args):len(args)], "left_out", leftOut)
	}
	log.Log(context.Background(), level, text, args...)
}

// due reports whether a line about subject is to be written now, and how many
// were left out since the last one. Beyond maxReported, all others are one.
func (r *Reports) due(subject string, now time.Time) (due bool, leftOut int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = make(map[string]*reported)
	}
	one := r.last[subject]
	if one == nil && len(r.last) >= maxReported {
		subject = others
		one = r.last[subject]
	}
	if one == nil {
		one = new(reported)
		r.last[subject] = one
	} else if now.Sub(one.at) < reportEvery {
		one.leftOut++
		r.wait(one)
		return false, 0
	}
	leftOut = one.leftOut
	one.at, one.leftOut = now, 0
	return true, leftOut
}

func (r *Reports) wait(one *reported) {
	if r.Waiting != nil && one.leftOut > 0 {
		r.Waiting(one.at.Add(reportEvery))
	}
}

// Flush says of each subject that has had no line for a while how many were
// left out, and forgets it. Call it now and then, or with all at the end.
func (r *Reports) Flush(log *slog.Logger, all bool) {
	leftOut := make(map[string]int)
	r.mu.Lock()
	now := time.Now()
	for subject, one := range r.last {
		if !all && now.Sub(one.at) < reportEvery {
			r.wait(one)
			continue
		}
		if one.leftOut > 0 {
			leftOut[subject] = one.leftOut
		}
		delete(r.last, subject)
	}
	r.mu.Unlock()
	for subject, n := range leftOut {
		log.Warn("jobs: lines of the log were left out", "about", subject, "left_out", n)
	}
}
