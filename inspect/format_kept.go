package inspect

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

type lineStep struct {
	Name   string `json:"name"`
	Result []byte `json:"result,omitempty"`
}

type lineShare struct {
	Done  int64    `json:"done"`
	Total int64    `json:"total,omitempty"`
	Note  lineText `json:"note,omitzero"`
}

type linePutOff struct {
	Cause   string    `json:"cause"`
	Times   int       `json:"times"`
	Since   time.Time `json:"since,omitzero"`
	Charged int       `json:"charged"`
}

// keep sets checkpoint, steps and progress.
func (l *line) keep(k *broker.Kept) {
	if k == nil {
		return
	}
	l.Checkpoint = k.Checkpoint
	for _, s := range k.Steps {
		l.Steps = append(l.Steps, lineStep{s.Name, s.Result})
	}
	if p := k.Progress; !p.IsZero() {
		l.Progress = &lineShare{p.Done, p.Total, lineText(p.Note)}
	}
}

// kept is the inverse of keep.
func (l *line) kept() *broker.Kept {
	if len(l.Checkpoint) == 0 && len(l.Steps) == 0 && l.Progress == nil {
		return nil
	}
	k := &broker.Kept{Checkpoint: l.Checkpoint}
	for _, s := range l.Steps {
		k.Steps = append(k.Steps, broker.DoneStep{Name: s.Name, Result: s.Result})
	}
	if p := l.Progress; p != nil {
		k.Progress = broker.Progress{Done: p.Done, Total: p.Total, Note: string(p.Note)}
	}
	return k
}

func putOffLines(all []broker.PutOff) (lines []linePutOff) {
	for _, p := range all {
		lines = append(lines, linePutOff{p.Cause, p.Times, p.Since.UTC(), p.Charged})
	}
	return lines
}

// putOffsOf is the inverse of putOffLines.
func putOffsOf(lines []linePutOff) (all []broker.PutOff) {
	for _, l := range lines {
		all = append(all, broker.PutOff{Cause: l.Cause, Times: l.Times, Since: l.Since, Charged: l.Charged})
	}
	return all
}
