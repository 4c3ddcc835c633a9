package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// As returns an inspector that records who pauses or resumes a queue: a name for
// people, cut to 100 bytes.
func (i *Inspector) As(who string) *Inspector {
	if i == nil {
		return nil
	}
	named := *i
	named.who = strings.ToValidUTF8(who[:min(len(who), maxWho)], "")
	return &named
}

// WithNote returns an inspector that records why a queue is paused or resumed: a text
// for people, cut to 300 bytes.
func (i *Inspector) WithNote(why string) *Inspector {
	if i == nil {
		return nil
	}
	noting := *i
	noting.why = strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
	return &noting
}

const (
	maxWho = 100 // bytes; an address fits
	maxWhy = 300 // bytes; three lines on a page
)

// PauseNote says who paused or resumed a queue last, when, and why.
type PauseNote struct {
	Paused bool
	By     string    // empty if not given; see As
	Why    string    // empty if not given; see WithNote
	At     time.Time // by the store's clock
}

type storedPause struct {
	Paused bool   `json:"paused"`
	By     string `json:"by,omitempty"`
	Why    string `json:"why,omitempty"`
}

const (
	pauseOwner = "pause"
	pauseTTL   = 365 * 24 * time.Hour // the note of a longer pause expires; the pause does not
)

// pauseMark returns the name of the mark with a queue's note. It hashes the queue's
// name, which may be as long as a mark's name.
func pauseMark(queue string) string {
	sum := sha256.Sum256([]byte(queue))
	return "pause/" + hex.EncodeToString(sum[:12])
}

// notePause records who paused or resumed a queue. It ignores errors: the pause is
// valid without the record.
func (i *Inspector) notePause(ctx context.Context, queue string, paused bool) {
	value, err := json.Marshal(storedPause{paused, i.who, i.why})
	if err != nil {
		return
	}
	req := broker.MarkRequest{Action: broker.MarkTake, Name: pauseMark(queue), Owner: pauseOwner, TTL: pauseTTL}
	got, err := marks{i}.Mark(ctx, req)
	if err != nil || !got.Held {
		return
	}
	req.Action, req.Fence, req.Value = broker.MarkSet, got.Fence, value
	_, _ = marks{i}.Mark(ctx, req)
}

// String returns a text for people: "by ada since 2026-01-02T15:04:05Z: a deploy".
func (n PauseNote) String() string {
	text := "since " + readable.Clock(n.At)
	if n.By != "" {
		text = "by " + n.By + " " + text
	}
	if n.Why != "" {
		text += ": " + n.Why
	}
	return text
}

// PauseNote returns who paused or resumed a queue last. known is false if no inspector
// did so in the last year.
func (i *Inspector) PauseNote(ctx context.Context, queue string) (note PauseNote, known bool, err error) {
	got, err := marks{i}.Mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: pauseMark(queue)})
	var stored storedPause
	if err != nil || !got.Held || json.Unmarshal(got.Value, &stored) != nil {
		return note, false, err
	}
	return PauseNote{stored.Paused, stored.By, stored.Why, got.Until.Add(-pauseTTL)}, true, nil
}
