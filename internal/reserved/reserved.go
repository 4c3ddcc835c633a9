// Package reserved has what the extensions with a reserved queue share. Each thing that such
// an extension stores is a job with a definition, in JSON, and a mark with a state, in JSON.
package reserved

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
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
func Put(ctx context.Context, to broker.Producer, queue string, job broker.NewJob) error {
	job.Queue, job.Body.Priority, job.Body.MaxRetries = queue, broker.PriorityNormal, broker.MaxRetriesCap
	job.Body.Backoff = broker.Backoff{Kind: broker.BackoffExponential, Base: FailedPause, Max: 6 * FailedPause}
	receipts, err := to.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{job}})
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

// Find finds a job of a queue. The error is ErrNotFound if it does not exist.
func Find(ctx context.Context, b broker.Broker, queue, id string) (*broker.Job, error) {
	page, err := b.Find(ctx, broker.Query{Queue: queue, IDs: []string{id}, Suppressed: true})
	if err == nil && len(page.Jobs) == 0 {
		err = broker.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &page.Jobs[0], page.Jobs[0].Broken
}

// State returns the state of a job, or StateNone if it does not exist.
func State(ctx context.Context, b broker.Broker, queue, id string) (broker.State, error) {
	page, err := b.Find(ctx, broker.Query{Queue: queue, IDs: []string{id}, Suppressed: true, NoPayload: true})
	if err != nil || len(page.Jobs) == 0 {
		return broker.StateNone, err
	}
	return page.Jobs[0].State, nil
}

// readers is how many calls All makes at once.
const readers = 16

// All calls f with each number below n, several at once, and returns the first error.
func All(n int, f func(i int) error) error {
	errs := make([]error, n)
	var reading sync.WaitGroup
	tokens := make(chan struct{}, readers)
	for i := range n {
		tokens <- struct{}{}
		reading.Go(func() {
			errs[i] = f(i)
			<-tokens
		})
	}
	reading.Wait()
	return cmp.Or(errs...)
}

// maxAttempts bounds how often Repeat calls its function: with the pauses, for about eight seconds. A run
// of a job in a reserved queue takes a few milliseconds.
const maxAttempts = 50

// Repeat calls f again while it returns the error again.
func Repeat(ctx context.Context, again error, f func() error) error {
	for attempt := 0; ; attempt++ {
		err := f()
		if !errors.Is(err, again) || attempt >= maxAttempts {
			return err
		}
		if err := sleep.For(ctx, min(time.Duration(attempt+1)*10*time.Millisecond, 200*time.Millisecond)); err != nil {
			return err
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
	if err := checkVersion(text, what, newest); err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(definition); err != nil {
		return fmt.Errorf("%w: the %s: %w", broker.ErrMalformed, what, err)
	}
	return nil
}

func checkVersion(text []byte, what string, newest int) error {
	var head struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: the %s is not JSON: %w", broker.ErrMalformed, what, err)
	}
	if head.Version > newest {
		return &broker.Error{Field: what, Err: broker.ErrNewerForm, Hint: "update this program"}
	}
	return nil
}

// States are the marks of one kind of thing, such as "schedule". The fence of a mark orders its
// writers: one that was overtaken writes nothing.
type States struct {
	Broker  broker.Broker
	Of      string
	Version int // of states, the newest that this program knows
}

// ErrOvertaken says that somebody else changed a state meanwhile.
var ErrOvertaken = errors.New("somebody else changed the state meanwhile")

// Take reads a state. Earlier readers of it can no longer write. If there is none, it stores first.
func (s States) Take(ctx context.Context, id string, first, state any) (broker.Marked, error) {
	m, err := s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: s.name(id), Owner: s.Of, TTL: broker.MaxDelay,
		Value: Encode(first)})
	switch {
	case err != nil:
	case !m.Held:
		err = fmt.Errorf("the mark of the %s is held by %q", s.Of, m.Owner)
	default:
		err = s.read(m.Value, state)
	}
	return m, err
}

// Peek reads a state; ok is false if there is none.
func (s States) Peek(ctx context.Context, id string, state any) (ok bool, err error) {
	m, err := s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: s.name(id)})
	if err != nil || !m.Held {
		return false, err
	}
	return true, s.read(m.Value, state)
}

// read reads what it can of a newer state, too.
func (s States) read(value []byte, state any) error {
	what := s.Of + "'s state"
	err := checkVersion(value, what, s.Version)
	if bad := json.Unmarshal(value, state); err == nil && bad != nil {
		err = fmt.Errorf("%w: the %s: %w", broker.ErrMalformed, what, bad)
	}
	return err
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

// Remove deletes a state that mine accepts once it was read, unless somebody takes it meanwhile: another thing with
// the same ID may have a state by now. It also deletes a state that cannot be read.
func (s States) Remove(ctx context.Context, id string, state any, mine func() bool) error {
	m, err := s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: s.name(id)})
	if err != nil || !m.Held {
		return err
	}
	if err := s.read(m.Value, state); errors.Is(err, broker.ErrMalformed) || mine() {
		_, err = s.Broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkDrop, Name: s.name(id), Owner: s.Of, Fence: m.Fence})
		return err
	}
	return nil
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
