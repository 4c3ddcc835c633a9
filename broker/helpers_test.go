package broker_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// golden compares got with a file of testdata. With JOBS_UPDATE_GOLDEN set it
// writes the file instead: a change of one that a release has written breaks
// stored jobs.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("JOBS_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; set JOBS_UPDATE_GOLDEN=1 to write a new one", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed. If jobs that are stored in this form stay readable, set JOBS_UPDATE_GOLDEN=1.\ngot:\n%s\nwant:\n%s", path, got,
			want)
	}
}

func fullBody() broker.Body {
	return broker.Body{
		Type:        "email:send",
		TypeVersion: 3,
		Payload:     []byte("\x00\xff not UTF-8 \xc3"),
		Headers:     map[string]string{"b": "\x00\xff", "a": "", "traceparent": "00-1-2-01"},
		Priority:    broker.PriorityUrgent,
		MaxRetries:  25,
		CrashBudget: 3,
		Timeout:     90 * time.Second,
		Deadline:    time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC),
		Retention:   36 * time.Hour,
		DueAfter:    5 * time.Second,
		Backoff:     broker.Backoff{Kind: broker.BackoffLinear, Base: time.Microsecond, Max: broker.MaxDelay},
		Unique: broker.Unique{Key: "user:7", Mode: broker.UniqueUntilStarted, TTL: time.Hour,
			Conflict: broker.ConflictDebounce, Latest: time.Minute},
		Key:            "tenant-1",
		GivenID:        true,
		CorrelationID:  "correlation",
		IdempotencyKey: "idempotency",
		PayloadRef:     "s3://bucket/key",
		Source:         "schedule:nightly",
	}
}

func fullHead() broker.Head {
	return broker.Head{
		Epoch: 12, Deliveries: 11, Failures: 10, Crashes: 9, Snoozes: 8,
		Reason:     broker.ReasonCrashes,
		Suppressed: true,
		FinishedAt: time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC),
		Result:     []byte("\x00\xff"),
		Errors: broker.ErrorLog{Dropped: 7, Entries: []broker.Failure{
			{At: time.Date(2029, 1, 1, 0, 0, 0, 1000, time.UTC), Attempt: 6, Code: "timeout", Class: "retryable",
				Message: "it \x00\xff took too long", Stack: "goroutine 1", Worker: "w", Version: "v1.2.3"},
			{}, // an entry without content counts as one
		}},
		Kept: &broker.Kept{Checkpoint: []byte("row 7\x00\xff"),
			Steps:    []broker.DoneStep{{Name: "charge", Result: []byte(`{"id":1}`)}, {Name: "tell"}},
			Progress: broker.Progress{Done: 30, Total: 120, Note: "sending"}},
		PutOffs: []broker.PutOff{{Cause: "unknown_type", Times: 4, Since: time.Date(2029, 2, 1, 0, 0, 0, 0, time.UTC), Charged: 26}},
	}
}

func fullWorkerInfo() broker.WorkerInfo {
	return broker.WorkerInfo{
		ID: "w", Host: "host", PID: 4711, Program: "mailer v1", Concurrency: 10,
		Queues: []string{"a", "b"}, Types: []string{"email:*", "sms:send"},
		StartedAt: time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC),
		Longest: []broker.Running{{Queue: "a", ID: "long", Since: time.Date(2030, 1, 2, 3, 4, 6, 7000, time.UTC)},
			{Queue: "b", ID: "shorter", Since: time.Date(2030, 1, 2, 3, 4, 7, 0, time.UTC)}},
		Until: time.Date(2030, 1, 2, 3, 4, 20, 0, time.UTC), Held: 5,
	}
}

// show writes a value with random bytes in it so that it can be read.
func show(v any) string { return fmt.Sprintf("%.2000s", fmt.Sprintf("%#v", v)) }

// random makes values of every kind, with bytes of any kind in them.
type random struct{ *rand.Rand }

func newRandom(t *testing.T) random {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return random{rand.New(rand.NewPCG(seed, 0))}
}

func (r random) bytes() []byte {
	n := []int{0, 0, 1, 10, 127, 128, 300, 20_000}[r.IntN(8)]
	if n == 0 {
		return nil
	}
	p := make([]byte, 1+r.IntN(n))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func (r random) str() string { return string(r.bytes()) }

func (r random) micros() int64 {
	return r.Int64() >> r.IntN(64) % broker.MaxDelay.Microseconds()
}

func (r random) duration() time.Duration { return time.Duration(r.micros()) * time.Microsecond }
func (r random) time() time.Time         { return broker.FromMicros(r.micros()) }
func (r random) int() int                { return int(r.Int64() >> r.IntN(64)) }

func (r random) body() broker.Body {
	b := broker.Body{
		Type: r.str(), TypeVersion: r.int(), Payload: r.bytes(),
		Priority: broker.Priority(1 + r.IntN(broker.Priorities)), MaxRetries: r.int(), CrashBudget: r.int(),
		Timeout: r.duration(), Deadline: r.time(), Retention: r.duration(),
		Backoff: broker.Backoff{Kind: broker.BackoffKind(r.IntN(4)), Base: r.duration(), Max: r.duration()},
		Unique:  broker.Unique{Key: r.str()},
		Key:     r.str(), GivenID: r.IntN(2) == 0,
		CorrelationID: r.str(), IdempotencyKey: r.str(), PayloadRef: r.str(), Source: r.str(),
	}
	if b.Unique.Key != "" {
		b.Unique.Mode, b.Unique.TTL = broker.UniqueMode(r.IntN(3)), r.duration()
		b.Unique.Conflict, b.Unique.Latest = broker.UniqueConflict(r.IntN(4)), r.duration()
	}
	for range r.IntN(4) {
		if b.Headers == nil {
			b.Headers = make(map[string]string)
		}
		b.Headers[r.str()] = r.str()
	}
	return b
}

func (r random) head() broker.Head {
	h := broker.Head{
		Epoch: r.Int64(), Deliveries: r.int(), Failures: r.int(), Crashes: r.int(), Snoozes: r.int(),
		Reason: broker.DeadReason(r.IntN(7)), Suppressed: r.IntN(2) == 0, FinishedAt: r.time(), Result: r.bytes(),
		Errors: broker.ErrorLog{Dropped: r.int()},
	}
	for range r.IntN(4) {
		h.Errors.Entries = append(h.Errors.Entries, broker.Failure{At: r.time(), Attempt: r.int(), Code: r.str(),
			Class: r.str(), Message: r.str(), Stack: r.str(), Worker: r.str(), Version: r.str()})
	}
	if r.IntN(2) == 0 {
		h.Kept = &broker.Kept{Checkpoint: []byte("c" + r.str()), Progress: broker.Progress{Done: r.Int64(), Total: r.Int64(), Note: r.str()}}
		for range r.IntN(3) {
			h.Kept.Steps = append(h.Kept.Steps, broker.DoneStep{Name: "s" + r.str(), Result: r.bytes()})
		}
	}
	for range r.IntN(3) {
		h.PutOffs = append(h.PutOffs, broker.PutOff{Cause: r.str(), Times: r.int(), Since: r.time(), Charged: r.int()})
	}
	return h
}
