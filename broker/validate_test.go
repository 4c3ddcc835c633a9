package broker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// bad is a value that must be refused, with the words that the refusal owes to
// whoever reads it: the field, the limit and the remedy.
type bad struct {
	name  string
	err   error
	kind  error
	words []string
}

func checkRefusals(t *testing.T, op string, refusals []bad) {
	t.Helper()
	for _, b := range refusals {
		if !errors.Is(b.err, b.kind) {
			t.Errorf("%s, %s: error %v, want %v", op, b.name, b.err, b.kind)
			continue
		}
		if broker.MayHaveApplied(b.err) {
			t.Errorf("%s, %s: the refusal %v does not say that nothing was applied", op, b.name, b.err)
		}
		text := b.err.Error()
		for _, word := range append(b.words, op+":") {
			if !strings.Contains(text, word) {
				t.Errorf("%s, %s: the refusal does not say %q: %s", op, b.name, word, text)
			}
		}
		var e *broker.Error
		if !errors.As(b.err, &e) || e.Op != op || e.Field == "" && !errors.Is(b.err, broker.ErrUnsupported) {
			t.Errorf("%s, %s: the *Error is %+v; want the operation and the field", op, b.name, e)
		}
		if start := "jobs: " + op + ": "; !strings.HasPrefix(text, start) || strings.Contains(text[1:], start) || len(text) > 500 {
			t.Errorf("%s, %s: the text is not one short sentence: %s", op, b.name, text)
		}
	}
}

const (
	notUTF8 = "a\xffb"
	control = "a\nb"
)

var tooLong = strings.Repeat("x", broker.MaxNameLen+1)

// badNames are the refusals of a field that is a name; set gives the field a
// value and checks.
func badNames(field string, required bool, set func(string) error) []bad {
	all := []bad{
		{field + " too long", set(tooLong), broker.ErrInvalid, []string{field, "256", "255", "shorten"}},
		{field + " not UTF-8", set(notUTF8), broker.ErrInvalid, []string{field, "UTF-8", "encode"}},
		{field + " with control character", set(control), broker.ErrInvalid, []string{field, "control", "remove"}},
	}
	if required {
		all = append(all, bad{field + " empty", set(""), broker.ErrInvalid, []string{field, "empty", "255"}})
	}
	return all
}

func badDurations(field string, set func(time.Duration) error) []bad {
	return []bad{
		{field + " negative", set(-1), broker.ErrInvalid, []string{field, "negative", "zero or more"}},
		{field + " absurd", set(broker.MaxDelay + 1), broker.ErrInvalid, []string{field, "876000h", "100 years"}},
	}
}

func badTimes(field string, set func(time.Time) error) []bad {
	var all []bad
	for _, year := range []int{0, 1969, 2200, 10_000} {
		all = append(all, bad{fmt.Sprint(field, " in year ", year), set(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)),
			broker.ErrInvalid, []string{field, fmt.Sprint(year), "1970", "2199"}})
	}
	return append(all, bad{field + " at the first instant", set(time.Unix(0, 0)), broker.ErrInvalid, []string{field, "1970"}})
}

func queueRefusals(set func(string) error) []bad {
	return append(badNames("queue", true, set),
		bad{"queue with an opening brace", set("a{b"), broker.ErrInvalid, []string{"queue", "brace", "choose another"}},
		bad{"queue with a closing brace", set("a}b"), broker.ErrInvalid, []string{"queue", "brace", "choose another"}})
}

// with makes a valid new job, changes it and checks it.
func with(change func(*broker.NewJob)) error {
	j := broker.NewJob{Queue: "q", ID: "id", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}}
	change(&j)
	return j.Check(broker.Limits{})
}

func TestValidate_ANewJobOutsideTheLimitsIsRefusedInWords(t *testing.T) {
	t.Parallel()
	if err := with(func(*broker.NewJob) {}); err != nil {
		t.Fatalf("a valid job was refused: %v", err)
	}
	type job = broker.NewJob
	field := func(set func(*job, string)) func(string) error {
		return func(s string) error { return with(func(j *job) { set(j, s) }) }
	}
	duration := func(set func(*job, time.Duration)) func(time.Duration) error {
		return func(d time.Duration) error { return with(func(j *job) { set(j, d) }) }
	}
	instant := func(set func(*job, time.Time)) func(time.Time) error {
		return func(at time.Time) error { return with(func(j *job) { set(j, at) }) }
	}
	headers := func(n, size int) map[string]string {
		h := make(map[string]string)
		for i := range n {
			h[fmt.Sprintf("%03d", i)] = strings.Repeat("v", size)
		}
		return h
	}
	var all []bad
	all = append(all, queueRefusals(field(func(j *job, s string) { j.Queue = s }))...)
	all = append(all, badNames("id", true, field(func(j *job, s string) { j.ID = s }))...)
	all = append(all, badNames("type", true, field(func(j *job, s string) { j.Body.Type = s }))...)
	all = append(all, badNames("key", false, field(func(j *job, s string) { j.Body.Key = s }))...)
	all = append(all, badNames("unique key", false, field(func(j *job, s string) { j.Body.Unique.Key = s }))...)
	all = append(all, badNames("correlation id", false, field(func(j *job, s string) { j.Body.CorrelationID = s }))...)
	all = append(all, badNames("idempotency key", false, field(func(j *job, s string) { j.Body.IdempotencyKey = s }))...)
	all = append(all, badNames("source", false, field(func(j *job, s string) { j.Body.Source = s }))...)
	all = append(all, badDurations("delay", duration(func(j *job, d time.Duration) { j.Delay = d }))...)
	all = append(all, badDurations("timeout", duration(func(j *job, d time.Duration) { j.Body.Timeout = d }))...)
	all = append(all, badDurations("retention", duration(func(j *job, d time.Duration) { j.Body.Retention = d }))...)
	all = append(all, badDurations("backoff base", duration(func(j *job, d time.Duration) { j.Body.Backoff.Base = d }))...)
	all = append(all, badDurations("backoff max", duration(func(j *job, d time.Duration) { j.Body.Backoff.Max = d }))...)
	all = append(all, badDurations("unique ttl", duration(func(j *job,
		d time.Duration) {
		j.Body.Unique = broker.Unique{Key: "k", TTL: d}
	}))...)
	all = append(all, badDurations("unique latest", duration(func(j *job, d time.Duration) {
		j.Body.Unique = broker.Unique{Key: "k", Conflict: broker.ConflictDebounce, Latest: d}
	}))...)
	all = append(all, badTimes("run at", instant(func(j *job, at time.Time) { j.RunAt = at }))...)
	all = append(all, badTimes("deadline", instant(func(j *job, at time.Time) { j.Body.Deadline = at }))...)
	all = append(all, []bad{
		{"delay and run at", with(func(j *job) { j.Delay, j.RunAt = 1, time.Unix(2e9, 0) }), broker.ErrInvalid,
			[]string{"delay", "run at", "one of them"}},
		{"payload too large", with(func(j *job) { j.Body.Payload = make([]byte, broker.DefaultMaxPayload+1) }), broker.ErrTooLarge,
			[]string{"payload", "1048577", "1048576", "reference"}},
		{"payload ref too large", with(func(j *job) { j.Body.PayloadRef = strings.Repeat("x", broker.MaxHeaderBytes+1) }), broker.ErrTooLarge,
			[]string{"payload ref", "65537", "65536", "shorten"}},
		{"too many headers", with(func(j *job) { j.Body.Headers = headers(65, 1) }), broker.ErrTooLarge, []string{"headers", "65", "64", "drop"}},
		{"headers too large", with(func(j *job) { j.Body.Headers = headers(64, 1022) }), broker.ErrTooLarge,
			[]string{"headers", "65600", "65536", "shorten"}},
		{"header without a key", with(func(j *job) { j.Body.Headers = map[string]string{"": "v"} }), broker.ErrInvalid,
			[]string{"headers", "empty key", "name it"}},
		{"unique ttl without a key", with(func(j *job) { j.Body.Unique.TTL = 1 }), broker.ErrInvalid,
			[]string{"unique key", "empty", "give a key"}},
		{"unique mode without a key", with(func(j *job) { j.Body.Unique.Mode = broker.UniqueWindow }), broker.ErrInvalid,
			[]string{"unique key", "empty", "give a key"}},
		{"unique window without a length", with(func(j *job) { j.Body.Unique = broker.Unique{Key: "k", Mode: broker.UniqueWindow} }),
			broker.ErrInvalid, []string{"unique ttl", "zero", "length"}},
		{"unique conflict without a key", with(func(j *job) { j.Body.Unique.Conflict = broker.ConflictReplace }), broker.ErrInvalid,
			[]string{"unique key", "empty", "give a key"}},
		{"unique latest without a key", with(func(j *job) { j.Body.Unique.Latest = 1 }), broker.ErrInvalid,
			[]string{"unique key", "empty", "give a key"}},
		{"unknown unique conflict", with(func(j *job) { j.Body.Unique = broker.Unique{Key: "k", Conflict: 4} }), broker.ErrInvalid,
			[]string{"unique conflict", "4", "unknown"}},
		{"debounce without a latest time", with(func(j *job) { j.Body.Unique = broker.Unique{Key: "k", Conflict: broker.ConflictDebounce} }),
			broker.ErrInvalid, []string{"unique latest", "zero", "longest"}},
		{"latest time without debounce", with(func(j *job) {
			j.Body.Unique = broker.Unique{Key: "k", Conflict: broker.ConflictReplace,
				Latest: 1}
		}), broker.ErrInvalid, []string{"unique latest", "set", "debounce"}},
		{"debounce for longer than its latest time", with(func(j *job) {
			j.Body.Unique, j.Delay = broker.Unique{Key: "k", Conflict: broker.ConflictDebounce, Latest: time.Second}, time.Minute
		}), broker.ErrInvalid, []string{"unique latest", "1s", "1m0s", "longer"}},
		{"debounce in a window", with(func(j *job) {
			j.Body.Unique = broker.Unique{Key: "k", Mode: broker.UniqueWindow, TTL: 1, Conflict: broker.ConflictDebounce, Latest: 1}
		}), broker.ErrInvalid, []string{"unique mode", "window", "debounce"}},
		{"keep last until started", with(func(j *job) {
			j.Body.Unique = broker.Unique{Key: "k", Mode: broker.UniqueUntilStarted, Conflict: broker.ConflictKeepLast}
		}), broker.ErrInvalid, []string{"unique mode", "until done", "keep last"}},
		{"unknown unique mode", with(func(j *job) { j.Body.Unique = broker.Unique{Key: "k", Mode: 3} }), broker.ErrInvalid,
			[]string{"unique mode", "3"}},
		{"no priority", with(func(j *job) { j.Body.Priority = 0 }), broker.ErrInvalid, []string{"priority", "0", "1 (first) to 4"}},
		{"priority too high", with(func(j *job) { j.Body.Priority = 5 }), broker.ErrInvalid, []string{"priority", "5", "1 (first) to 4"}},
		{"negative retries", with(func(j *job) { j.Body.MaxRetries = -1 }), broker.ErrInvalid, []string{"max retries", "-1", "0 to 1000000"}},
		{"absurd retries", with(func(j *job) { j.Body.MaxRetries = broker.MaxRetriesCap + 1 }), broker.ErrInvalid,
			[]string{"max retries", "1000001", "0 to 1000000"}},
		{"negative crash budget", with(func(j *job) { j.Body.CrashBudget = -1 }), broker.ErrInvalid, []string{"crash budget", "-1", "1000000"}},
		{"absurd crash budget", with(func(j *job) { j.Body.CrashBudget = broker.MaxRetriesCap + 1 }), broker.ErrInvalid,
			[]string{"crash budget", "1000001"}},
		{"negative type version", with(func(j *job) { j.Body.TypeVersion = -1 }), broker.ErrInvalid,
			[]string{"type version", "-1", "zero or more"}},
		{"unknown backoff", with(func(j *job) { j.Body.Backoff = broker.Backoff{Kind: 4, Base: 1} }), broker.ErrInvalid,
			[]string{"backoff kind", "4"}},
		{"backoff without a base", with(func(j *job) { j.Body.Backoff = broker.Backoff{Kind: broker.BackoffLinear} }), broker.ErrInvalid,
			[]string{"backoff base", "more than zero"}},
	}...)
	checkRefusals(t, "enqueue", all)
}

func TestValidate_ANewJobAtTheLimitsIsAccepted(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", broker.MaxNameLen)
	j := broker.NewJob{Queue: name, ID: name, RunAt: broker.MaxTime.Add(-1), Body: broker.Body{
		Type: name, Payload: make([]byte, broker.DefaultMaxPayload),
		Headers:  map[string]string{"k": strings.Repeat("\xff", broker.MaxHeaderBytes-1)},
		Priority: broker.PriorityBulk, MaxRetries: broker.MaxRetriesCap, CrashBudget: broker.MaxRetriesCap, Timeout: broker.NoTimeout,
		Deadline: time.Unix(0, 1), Retention: broker.MaxDelay,
		Backoff: broker.Backoff{Kind: broker.BackoffConstant, Base: 1, Max: broker.MaxDelay},
		Unique:  broker.Unique{Key: name, Mode: broker.UniqueWindow, TTL: broker.MaxDelay}, Key: name,
		CorrelationID: name, IdempotencyKey: name, PayloadRef: strings.Repeat("r", broker.MaxHeaderBytes), Source: "ünï ✓",
	}}
	if err := j.Check(broker.Limits{}); err != nil {
		t.Errorf("a job at every limit was refused: %v", err)
	}
	j.Delay, j.RunAt = broker.MaxDelay, time.Time{}
	if err := j.Check(broker.Limits{MaxPayload: broker.DefaultMaxPayload}); err != nil {
		t.Errorf("a job with the longest delay was refused: %v", err)
	}
}

func TestValidate_DeclaredLimitsRefuseWhatTheyExclude(t *testing.T) {
	t.Parallel()
	j := broker.NewJob{Queue: "q", ID: "id", Body: fullBody()}
	j.Body.Payload = make([]byte, 11)
	checkRefusals(t, "enqueue", []bad{
		{"payload", j.Check(broker.Limits{MaxPayload: 10}), broker.ErrTooLarge, []string{"payload", "11", "10", "reference"}},
		{"unique key", j.Check(broker.Limits{NoUnique: true}), broker.ErrUnsupported, []string{"unique key"}},
		{"unique conflict", j.Check(broker.Limits{NoMove: true}), broker.ErrUnsupported, []string{"unique conflict"}},
		{"priority", j.Check(broker.Limits{NoPriority: true}), broker.ErrUnsupported, []string{"priority"}},
	})
	j.Body.Unique, j.Body.Priority = broker.Unique{}, broker.PriorityNormal
	if err := j.Check(broker.Limits{NoPriority: true, NoUnique: true, MaxPayload: 11}); err != nil {
		t.Errorf("a job that needs nothing special was refused: %v", err)
	}
}
