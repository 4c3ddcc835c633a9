package storedtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Start is the virtual time at which Write begins. Write takes a few seconds of that time.
var Start = time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)

// The queues that Write fills. mail has jobs of all kinds. In limits, limits of each kind block jobs; in ordered, a dead
// job does.
const (
	mail    = "mail"
	limits  = "limits"
	ordered = "ordered"
)

// Queues lists all of them.
var Queues = []string{limits, mail, ordered}

// The workers that hold leases after Write. Those of patient last for a day, those of brief have run out when Work begins.
const (
	patient = "patient"
	brief   = "brief"
)

// ulid is an ID as clients generate it.
const ulid = "01JGJ5W8R0ABCDEFGHJKMNPQRS"

// Write stores jobs in each state, with each kind of key and limit, and everything else that a store keeps.
func Write(tb testing.TB, b broker.Broker) {
	tb.Helper()
	s := &step{tb: tb, b: b, now: Start, leased: make(map[string]*broker.Job), numbers: make(map[string]int64)}
	s.policies()
	s.register(patient, 24*time.Hour)
	s.register(brief, time.Minute)
	s.ended()
	s.leases()
	s.waiting()
	s.unique()
	s.limited()
	s.marks()
}

func (s *step) policies() {
	s.policy(broker.PolicyRequest{Queue: mail, RetainCompleted: &broker.Retention{Age: time.Hour, Count: 50},
		RetainDead: &broker.Retention{Count: 1000}, MaxDepth: new(int64(500)), MaxBytes: new(int64(1 << 20)),
		DuplicateSpan: new(48 * time.Hour), PriorityRound: new(int64(100)), RetryRate: &broker.Rate{Jobs: 100, Per: time.Second}})
	s.policy(broker.PolicyRequest{Queue: limits, MaxActive: new(int64(3)), Rate: &broker.Rate{Jobs: 60, Per: time.Minute, Burst: 5},
		KeyMaxActive: new(int64(1)), KeyRate: &broker.Rate{Jobs: 1, Per: time.Second, Burst: 1}, KeyMaxDepth: new(int64(20))})
	s.policy(broker.PolicyRequest{Queue: limits, Key: "large", Weight: new(int64(3)), MaxActive: new(int64(2))})
	s.policy(broker.PolicyRequest{Queue: limits, Key: "paused", Paused: new(true)})
	s.policy(broker.PolicyRequest{Queue: ordered, Ordered: new(broker.OrderStop)})
}

// ended leaves jobs that ended, and IDs of jobs that are gone.
func (s *step) ended() {
	failure := broker.Failure{At: Start, Attempt: 1, Code: "timeout", Class: "retryable", Message: "it \x00\xff took too long",
		Stack: "goroutine 1", Worker: patient, Version: "v0"}
	s.enqueue("completed", nil)
	s.enqueue("cancelled", nil)
	s.enqueue("kept for weeks", func(j *broker.NewJob) { j.Body.Retention = 300 * 24 * time.Hour })
	s.enqueue("gone, its ID is remembered", func(j *broker.NewJob) { j.Body.GivenID, j.Body.Retention = true, time.Microsecond })
	s.enqueue("dead", func(j *broker.NewJob) { j.Body.Unique.Key = "of a dead job" })
	s.enqueue("dead and suppressed", nil)
	s.enqueue("to retry", nil)
	s.enqueue("to snooze", nil)
	s.enqueue("released", nil)
	s.claim(patient, mail, 20)
	s.settle(patient, map[string]broker.Outcome{
		"completed": broker.Complete([]byte("\x00 result \xff")), "cancelled": broker.Cancel(broker.Failure{}),
		"kept for weeks": broker.Complete(nil), "gone, its ID is remembered": broker.Complete(nil),
		"dead": broker.Die(broker.ReasonRetries, failure), "dead and suppressed": broker.Die(broker.ReasonSkipRetry, failure),
		"to retry": broker.Retry(time.Minute, failure), "to snooze": broker.Snooze(time.Minute, broker.Failure{}).Because("busy", Start),
		"released": broker.Release(),
	})
	s.operate(broker.Operation{Kind: broker.OpSuppress}, mail, "dead and suppressed")
	s.now = s.now.Add(time.Second)
	if _, err := s.b.Prune(s.tb.Context(), broker.PruneRequest{Now: s.now, Queues: Queues, Max: 100}); err != nil {
		s.tb.Fatal(err)
	}
}

// leases leaves active jobs: one has kept something, one is to be cancelled, and a job will come behind the last one.
func (s *step) leases() {
	for _, id := range []string{"active", "active and kept", "active and to cancel"} {
		s.enqueue(id, func(j *broker.NewJob) { j.Body.Priority = broker.PriorityUrgent })
	}
	s.enqueue("in front", func(j *broker.NewJob) { j.Body.Unique.Key, j.Body.Priority = "latest", broker.PriorityUrgent })
	s.claim(patient, mail, 4)
	s.settle(patient, map[string]broker.Outcome{"active and kept": broker.Keep(broker.Kept{Checkpoint: []byte("row 7"),
		Steps: []broker.DoneStep{{Name: "charge", Result: []byte("{}")}}, Progress: broker.Progress{Done: 3, Total: 12, Note: "sending"}})})
	s.operate(broker.Operation{Kind: broker.OpCancel}, mail, "active and to cancel")
	s.enqueue("active, its worker ran out", func(j *broker.NewJob) { j.Body.Priority = broker.PriorityUrgent })
	s.claim(brief, mail, 1)
}

// waiting leaves jobs that are pending, scheduled and held, and one with every field.
func (s *step) waiting() {
	for p := range broker.Priority(broker.Priorities) {
		s.enqueue(fmt.Sprint("priority ", p+1), func(j *broker.NewJob) { j.Body.Priority = p + 1 })
	}
	s.enqueue(ulid, nil)
	s.enqueue("deleted", nil) // leaves a void entry in stores where removing it costs too much
	s.operate(broker.Operation{Kind: broker.OpDelete}, mail, "deleted")
	s.enqueue("scheduled", func(j *broker.NewJob) { j.Delay = time.Minute })
	s.enqueue("held", func(j *broker.NewJob) { j.Delay = time.Minute })
	s.operate(broker.Operation{Kind: broker.OpHold, Holder: "a move"}, mail, "held")
	s.enqueue("moved away", func(j *broker.NewJob) { j.Body.GivenID = true })
	s.operate(broker.Operation{Kind: broker.OpHold, Holder: "a move"}, mail, "moved away")
	s.operate(broker.Operation{Kind: broker.OpDelete, Holder: "a move"}, mail, "moved away")
	s.enqueue("every field", func(j *broker.NewJob) {
		j.Body = broker.Body{Type: "email:send", TypeVersion: 3, Payload: []byte("\x00\xff not UTF-8 \xc3"),
			Headers: map[string]string{"b": "\x00\xff", "a": ""}, Priority: broker.PriorityLow, MaxRetries: 25, CrashBudget: 3,
			Timeout: 90 * time.Second, Deadline: Start.AddDate(1, 0, 0), Retention: 36 * time.Hour, DueAfter: time.Minute,
			Backoff: broker.Backoff{Kind: broker.BackoffLinear, Base: time.Second, Max: time.Hour},
			Unique:  broker.Unique{Key: "user:7", Mode: broker.UniqueUntilStarted, TTL: time.Hour},
			Key:     "tenant", GivenID: true, CorrelationID: "correlation", IdempotencyKey: "idempotency",
			PayloadRef: "s3://bucket/key", Source: "schedule:nightly"}
		j.RunAt = Start.Add(time.Minute)
	})
}

// unique leaves jobs with unique keys of each mode, a window whose job is gone, and one job behind another.
func (s *step) unique() {
	s.enqueue("unique until done", func(j *broker.NewJob) { j.Body.Unique = broker.Unique{Key: "done"} })
	s.enqueue("unique until started", func(j *broker.NewJob) {
		j.Body.Unique = broker.Unique{Key: "started", Mode: broker.UniqueUntilStarted}
	})
	s.enqueue("unique in a window", func(j *broker.NewJob) {
		j.Body.Unique = broker.Unique{Key: "window", Mode: broker.UniqueWindow, TTL: 24 * time.Hour}
	})
	s.operate(broker.Operation{Kind: broker.OpDelete}, mail, "unique in a window")
	s.enqueue("behind", func(j *broker.NewJob) {
		j.Body.Unique = broker.Unique{Key: "latest", Conflict: broker.ConflictKeepLast}
	})
	s.enqueue("debounced", func(j *broker.NewJob) {
		j.Body.Unique = broker.Unique{Key: "debounce", Conflict: broker.ConflictDebounce, Latest: time.Hour}
		j.Delay = time.Minute
	})
}

// limited leaves keys that wait for their limits, and an ordered key that a dead job blocks.
func (s *step) limited() {
	for _, key := range []string{"small", "large", "paused", "other"} {
		for _, n := range []string{" 1", " 2", " 3"} {
			s.enqueue(key+n, func(j *broker.NewJob) { j.Queue, j.Body.Key = limits, key })
		}
	}
	s.claim(patient, limits, 2)
	s.claim(patient, limits, 2)
	for _, id := range []string{"first", "second"} {
		s.enqueue(id, func(j *broker.NewJob) { j.Queue, j.Body.Key = ordered, "account" })
		s.enqueue("other "+id, func(j *broker.NewJob) { j.Queue, j.Body.Key = ordered, "other account" })
	}
	s.claim(patient, ordered, 2)
	s.settle(patient, map[string]broker.Outcome{"first": broker.Die(broker.ReasonRetries, broker.Failure{Message: "no"})})
}

func (s *step) marks() {
	for _, name := range []string{"taken", "lapsed", "dropped"} {
		req := broker.MarkRequest{Now: s.now, Action: broker.MarkTake, Name: name, Owner: "owner of " + name, TTL: time.Hour,
			Value: []byte("\x00 value \xff")}
		if name == "lapsed" {
			req.TTL = time.Second
		}
		got := s.mark(req)
		if name == "dropped" {
			s.mark(broker.MarkRequest{Now: s.now, Action: broker.MarkDrop, Name: name, Owner: got.Owner, Fence: got.Fence})
		}
	}
}
