// Package reserved has what the extensions with a reserved queue share. Each thing that such
// an extension stores is a job with a definition, in JSON, and a mark with a state, in JSON.
package reserved

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// callTimeout limits one call to the store.
const callTimeout = 5 * time.Second

// Bounded returns a broker with a timeout for each call. It would also end a watch, which no extension uses.
func Bounded(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return next(ctx)
	})
}

// FailedPause is the shortest pause after a failed run of a job in a reserved queue.
const FailedPause = 10 * time.Second

// Put stores a job in a reserved queue, where it is retried without an end.
func Put(ctx context.Context, b broker.Broker, queue string, job broker.NewJob) error {
	job.Queue, job.Body.Priority, job.Body.MaxRetries = queue, broker.PriorityNormal, broker.MaxRetriesCap
	job.Body.Backoff = broker.Backoff{Kind: broker.BackoffExponential, Base: FailedPause, Max: 6 * FailedPause}
	receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{job}})
	if err == nil {
		err = receipts[0].Err
	}
	return err
}

// Each calls f with each page of the jobs that q selects.
func Each(ctx context.Context, b broker.Broker, q broker.Query, f func([]broker.Job) error) error {
	for {
		page, err := b.Find(ctx, q)
		if err == nil {
			err = f(page.Jobs)
		}
		if err != nil {
			return err
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}

// Encode returns a definition or a state as JSON.
func Encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("jobs: the stored form of %T cannot be written: %v", v, err)) // every field can be encoded
	}
	return text
}

// Decode reads a definition, such as a graph, whose version is at most newest. It refuses unknown
// fields: a newer version wrote them.
func Decode(text []byte, what string, newest int, definition any) error {
	var head struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: the %s is not JSON: %w", broker.ErrMalformed, what, err)
	}
	if head.Version > newest {
		return &broker.Error{Field: what, Err: broker.ErrNewerForm, Hint: "update this program"}
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(definition); err != nil {
		return fmt.Errorf("%w: the %s: %w", broker.ErrMalformed, what, err)
	}
	return nil
}

// States are the marks of one kind of thing, such as "schedule". The fence of a mark orders its
// writers: one that was overtaken writes nothing.
type States struct {
	Broker broker.Broker
	Of     string
}

// ErrOvertaken says that somebody else changed a state meanwhile.
var ErrOvertaken = errors.New("somebody else changed the state meanwhile")

// Take reads a state. Earlier readers of it can no longer write. If there is none, it stores first.
func (s States) Take(ctx context.Context, id string, first any) (broker.Marked, error) {
	m, err := s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: s.name(id), Owner: s.Of, TTL: broker.MaxDelay,
		Value: Encode(first)})
	if err == nil && !m.Held {
		err = fmt.Errorf("the mark of the %s is held by %q", s.Of, m.Owner)
	}
	return m, err
}

// Peek reads a state; Held is false if there is none.
func (s States) Peek(ctx context.Context, id string) (broker.Marked, error) {
	return s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: s.name(id)})
}

// Keep writes a state for a time. The error is ErrOvertaken if another reader has taken it since.
func (s States) Keep(ctx context.Context, id string, fence int64, ttl time.Duration, state any) error {
	m, err := s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkSet, Name: s.name(id), Owner: s.Of, Fence: fence, TTL: ttl,
		Value: Encode(state)})
	if err == nil && !m.Held {
		err = ErrOvertaken
	}
	return err
}

// Remove deletes a state.
func (s States) Remove(ctx context.Context, id string) error {
	m, err := s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: s.name(id), Owner: s.Of, TTL: time.Minute})
	if err == nil && m.Held {
		_, err = s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkDrop, Name: s.name(id), Owner: s.Of, Fence: m.Fence})
	}
	return err
}

func (s States) name(id string) string { return s.Of + ":" + id }

// Duration is a time.Duration that people can read in JSON.
type Duration time.Duration

// MarshalText writes a duration such as "1m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// When returns t as it is stored: in UTC, to the microsecond.
func When(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}
