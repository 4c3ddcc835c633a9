package guard

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	reportEvery = 10 * time.Second // between two log records about a subject
	maxReported = 1000             // subjects with log records of their own
	others      = "(others)"       // the subject of all records beyond maxReported subjects
)

// Reports limits log records about events that can happen with every job: it writes one record in ten
// seconds for each subject, and counts the records that it leaves out. The zero value is ready to use
// from several goroutines.
type Reports struct {
	// Waiting, if set, is called with the time from which Flush has something to report. It is called
	// under a lock and must return quickly.
	Waiting func(time.Time)

	mu   sync.Mutex
	last map[string]*reported
}

type reported struct {
	at      time.Time
	leftOut int // records left out since then
}

// Report writes a log record, unless one about subject was written in the last ten seconds.
func (r *Reports) Report(log *slog.Logger, subject string, level slog.Level, text string, args ...any) {
	r.ReportOf(log, subject, level, text, func() []any { return args })
}

// ReportOf is Report with arguments that cost time. It calls args only if it writes the record, which it reports.
func (r *Reports) ReportOf(log *slog.Logger, subject string, level slog.Level, text string, args func() []any) (written bool) {
	due, leftOut := r.due(subject, time.Now())
	if !due {
		return false
	}
	all := args()
	if leftOut > 0 {
		all = append(all[:len(all):len(all)], "left_out", leftOut)
	}
	log.Log(context.Background(), level, text, all...)
	return true
}

// due reports whether to write a record about subject now, and how many were left out since the last
// one. Beyond maxReported subjects, all others count as one.
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

// Flush logs how many records were left out for each subject that had none for ten seconds, and
// forgets those subjects. With all it does so for every subject.
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
		log.Warn("jobs: log records were left out", "about", subject, "left_out", n)
	}
}
