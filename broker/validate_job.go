package broker

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// CheckName refuses names that some store could not hold or show: empty, over
// MaxNameLen bytes, not UTF-8, or with control characters.
func CheckName(field, s string) error {
	switch {
	case s == "":
		return Invalid(field, "is empty; give it 1 to %d bytes", MaxNameLen)
	case len(s) > MaxNameLen:
		return Invalid(field, "has %d bytes, the limit is %d; shorten or hash it", len(s), MaxNameLen)
	case printable(s): // most names; a faster check than those below
		return nil
	case !utf8.ValidString(s):
		return Invalid(field, "is not valid UTF-8; encode it, in hexadecimal for example")
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		return Invalid(field, "contains a control character; remove it")
	}
	return nil
}

// printable reports whether s has only printable ASCII characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// CheckQueue refuses what CheckName refuses, and braces.
func CheckQueue(name string) error {
	if err := CheckName("queue", name); err != nil {
		return err
	}
	if strings.ContainsAny(name, "{}") {
		return Invalid("queue", "%q contains a brace, which routes keys in Redis Cluster; choose another character", name)
	}
	return nil
}

// CheckDuration refuses negative durations and those over MaxDelay.
func CheckDuration(field string, d time.Duration) error {
	if d < 0 {
		return Invalid(field, "is negative (%v); use zero or more", d)
	}
	if d > MaxDelay {
		return Invalid(field, "is %v, the limit is %v (100 years)", d, MaxDelay)
	}
	return nil
}

// CheckTime refuses times from 2200 on, and times up to the first instant of 1970, whose
// stored form means that no time is set. The zero time means the same, and passes.
func CheckTime(field string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	if !t.After(time.Unix(0, 0)) || !t.Before(MaxTime) {
		return Invalid(field, "is %s; use a time after the first instant of 1970, up to the year 2199", t.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// Check refuses a request as a whole. NewJob.Check refuses single items.
func (r *EnqueueRequest) Check() error {
	if len(r.Jobs) > MaxBatch {
		return About(Invalid("jobs", "has %d items, the limit is %d; split the batch", len(r.Jobs), MaxBatch), "enqueue", "", "")
	}
	return nil
}

// Check refuses a job that is outside the limits.
func (j *NewJob) Check(l Limits) error {
	b := &j.Body
	err := cmp.Or(
		CheckQueue(j.Queue),
		CheckName("id", j.ID),
		CheckName("type", b.Type),
		b.checkSizes(l),
		j.checkUnique(l),
		checkOptional("key", b.Key),
		checkOptional("correlation id", b.CorrelationID),
		checkOptional("idempotency key", b.IdempotencyKey),
		checkOptional("source", b.Source),
		CheckDuration("delay", j.Delay),
		CheckTime("run at", j.RunAt),
		CheckTime("deadline", b.Deadline),
		CheckDuration("timeout", b.Timeout),
		CheckDuration("retention", b.Retention),
		CheckDuration("due after", b.DueAfter),
		b.Backoff.check(),
		b.checkCounts(l),
	)
	switch {
	case err != nil:
	case j.Delay > 0 && !j.RunAt.IsZero():
		err = Invalid("delay", "is set together with run at; set one of them")
	case b.newer:
		err = &Error{Field: "body", Err: ErrNewerForm, Hint: "a copy would lack fields that this program does not know; update it"}
	case j.Restore != nil && l.NoMove:
		err = &Error{Field: "restore", Err: ErrUnsupported}
	case j.Restore != nil:
		err = j.checkRestore()
	}
	return About(err, "enqueue", j.Queue, j.ID)
}

func checkOptional(field, s string) error {
	if s == "" {
		return nil
	}
	return CheckName(field, s)
}

func (b *Body) checkSizes(l Limits) error {
	if limit := l.PayloadLimit(); len(b.Payload) > limit {
		return tooLarge("payload", len(b.Payload), limit, "store it elsewhere and pass a reference")
	}
	if len(b.PayloadRef) > MaxHeaderBytes {
		return tooLarge("payload ref", len(b.PayloadRef), MaxHeaderBytes, "shorten it")
	}
	if len(b.Headers) > MaxHeaders {
		hint := fmt.Sprintf("%d headers, the limit is %d; drop some", len(b.Headers), MaxHeaders)
		return &Error{Field: "headers", Err: ErrTooLarge, Hint: hint}
	}
	size := 0
	for k, v := range b.Headers {
		if k == "" {
			return Invalid("headers", "has an empty key; name it")
		}
		size += len(k) + len(v)
	}
	if size > MaxHeaderBytes {
		return tooLarge("headers", size, MaxHeaderBytes, "drop or shorten some")
	}
	return nil
}

func tooLarge(field string, size, limit int, remedy string) error {
	return &Error{Field: field, Err: ErrTooLarge, Hint: fmt.Sprintf("%d bytes, the limit is %d; %s", size, limit, remedy)}
}

func (b *Body) checkCounts(l Limits) error {
	if b.Priority < 1 || b.Priority > Priorities {
		return Invalid("priority", "is %d; use 1 (first) to %d (last)", b.Priority, Priorities)
	}
	if l.NoPriority && b.Priority != PriorityNormal {
		return &Error{Field: "priority", Err: ErrUnsupported}
	}
	if b.MaxRetries < 0 || b.MaxRetries > MaxRetriesCap {
		return Invalid("max retries", "is %d; use 0 to %d", b.MaxRetries, MaxRetriesCap)
	}
	if b.CrashBudget < 0 || b.CrashBudget > MaxRetriesCap {
		return Invalid("crash budget", "is %d; use 0 (the server's default) to %d", b.CrashBudget, MaxRetriesCap)
	}
	if b.TypeVersion < 0 {
		return Invalid("type version", "is %d; use zero or more", b.TypeVersion)
	}
	return nil
}

func (b Backoff) check() error {
	if b.Kind > BackoffConstant {
		return Invalid("backoff kind", "%d is unknown", b.Kind)
	}
	if b.Kind != BackoffDefault && b.Base <= 0 {
		return Invalid("backoff base", "is %v; use more than zero", b.Base)
	}
	if err := CheckDuration("backoff base", b.Base); err != nil {
		return err
	}
	return CheckDuration("backoff max", b.Max)
}

// checkUnique refuses a Unique that is outside the limits or contradicts itself.
func (j *NewJob) checkUnique(l Limits) error {
	u := j.Body.Unique
	if u.Key == "" {
		switch {
		case u.Conflict != ConflictRefuse:
			return Invalid("unique key", "is empty although a conflict is set; give a key")
		case u.TTL != 0 || u.Mode != UniqueUntilDone || u.Latest != 0:
			return Invalid("unique key", "is empty although a mode or time of uniqueness is set; give a key")
		}
		return nil
	}
	if l.NoUnique {
		return &Error{Field: "unique key", Err: ErrUnsupported}
	}
	if err := CheckName("unique key", u.Key); err != nil {
		return err
	}
	if err := CheckDuration("unique ttl", u.TTL); err != nil {
		return err
	}
	switch u.Mode {
	case UniqueUntilDone, UniqueUntilStarted:
	case UniqueWindow:
		if u.TTL == 0 {
			return Invalid("unique ttl", "is zero; a unique window needs a length")
		}
	default:
		return Invalid("unique mode", "%d is unknown", u.Mode)
	}
	return j.checkConflict(l)
}

// checkConflict refuses a Conflict that does not go with the rest (§39 to §41).
func (j *NewJob) checkConflict(l Limits) error {
	u := j.Body.Unique
	if err := CheckDuration("unique latest", u.Latest); err != nil {
		return err
	}
	switch debounce := u.Conflict == ConflictDebounce; {
	case u.Conflict > ConflictKeepLast:
		return Invalid("unique conflict", "%d is unknown", u.Conflict)
	case u.Conflict != ConflictRefuse && l.NoMove:
		return &Error{Field: "unique conflict", Err: ErrUnsupported}
	case u.Conflict == ConflictKeepLast && u.Mode != UniqueUntilDone:
		return Invalid("unique mode", "is not until done; keep last needs that mode")
	case debounce && u.Mode == UniqueWindow:
		return Invalid("unique mode", "is a window; debounce needs until done or until started")
	case debounce && u.Latest == 0:
		return Invalid("unique latest", "is zero; debounce needs the longest time that a job waits")
	case !debounce && u.Latest != 0:
		return Invalid("unique latest", "is set without debounce; leave it out")
	case debounce && j.Delay > u.Latest:
		return Invalid("unique latest", "is %v, less than the delay of %v; make it longer", u.Latest, j.Delay)
	}
	return nil
}

// Meets reports whether j may replace the holder of its unique key, or wait behind it,
// instead of being refused. A restored job may not.
func (j *NewJob) Meets() bool { return j.Body.Unique.Conflict != ConflictRefuse && j.Restore == nil }

// ReservedPrefix begins the names of queues that belong to the framework:
// those of schedules, for example. Applications do not enqueue into them, and
// lists of all queues leave them out.
const ReservedPrefix = "@"

// Reserved reports whether a queue belongs to the framework.
func Reserved(queue string) bool { return strings.HasPrefix(queue, ReservedPrefix) }

// CheckUnreserved refuses the name of a queue that belongs to the framework.
func CheckUnreserved(queue string) error {
	if Reserved(queue) {
		return Invalid("queue", "%q begins with %s, as the queues of the framework itself do; choose another name", short(queue), ReservedPrefix)
	}
	return nil
}
