package schedule

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// job is the stored form of what each tick enqueues.
type job struct {
	Queue          string            `json:"queue"`
	Type           string            `json:"type"`
	TypeVersion    int               `json:"type_version,omitzero"`
	Payload        string            `json:"payload,omitempty"` // if it is text
	Bytes          []byte            `json:"payload_base64,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	HeaderBytes    map[string][]byte `json:"headers_base64,omitempty"` // those that are not text
	Priority       broker.Priority   `json:"priority"`
	MaxRetries     int               `json:"max_retries"`
	CrashBudget    int               `json:"crash_budget,omitzero"`
	Timeout        reserved.Duration `json:"timeout,omitzero"`
	Retention      reserved.Duration `json:"retention,omitzero"`
	Backoff        broker.Backoff    `json:"backoff,omitzero"`
	Unique         broker.Unique     `json:"unique,omitzero"`
	Key            string            `json:"key,omitempty"`
	CorrelationID  string            `json:"correlation_id,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	PayloadRef     string            `json:"payload_ref,omitempty"`
	Source         string            `json:"source,omitempty"`
}

func newJob(draft broker.NewJob) (job, error) {
	b := draft.Body
	for field, set := range map[string]bool{
		"id": b.GivenID, "delay": draft.Delay != 0, "run at": !draft.RunAt.IsZero(), "deadline": !b.Deadline.IsZero(),
	} {
		if set {
			return job{}, broker.Invalid(field,
				"is set by an option of the task; the schedule sets it for each tick (see WithJitter and WithExpiry)")
		}
	}
	if !utf8.ValidString(b.PayloadRef) { // as text, the definition would alter it
		return job{}, broker.Invalid("payload ref", "is not UTF-8; encode it, in base64 for example")
	}
	j := job{Queue: draft.Queue, Type: b.Type, TypeVersion: b.TypeVersion, Priority: b.Priority, MaxRetries: b.MaxRetries,
		CrashBudget: b.CrashBudget, Timeout: reserved.Duration(b.Timeout), Retention: reserved.Duration(b.Retention), Backoff: b.Backoff,
		Unique: b.Unique, Key: b.Key, CorrelationID: b.CorrelationID, IdempotencyKey: b.IdempotencyKey,
		PayloadRef: b.PayloadRef, Source: b.Source}
	if utf8.Valid(b.Payload) {
		j.Payload = string(b.Payload)
	} else {
		j.Bytes = b.Payload
	}
	for name, value := range b.Headers {
		if !utf8.ValidString(name) {
			return job{}, broker.Invalid("headers", "has the name %q, which is not UTF-8", name)
		}
		if name == HeaderSchedule || name == HeaderTick {
			return job{}, broker.Invalid("headers", "sets %s, which the schedule sets for each tick", name)
		}
		if utf8.ValidString(value) {
			if j.Headers == nil {
				j.Headers = make(map[string]string)
			}
			j.Headers[name] = value
			continue
		}
		if j.HeaderBytes == nil {
			j.HeaderBytes = make(map[string][]byte)
		}
		j.HeaderBytes[name] = []byte(value)
	}
	return j, nil
}

// tick is a tick that is to become a job.
type tick struct {
	At     time.Time `json:"at"`
	Manual bool      `json:"manual,omitempty"` // by RunNow
}

// jobID returns the ID of a tick's job. A manual run's ID has a fraction of a
// second, so it never equals that of a tick.
func (k tick) jobID(schedule string) string {
	layout := time.RFC3339Nano
	if k.Manual {
		layout = "2006-01-02T15:04:05.000000Z07:00"
	}
	return schedule + "@" + k.At.UTC().Format(layout)
}

// header returns the value of HeaderTick.
func (k tick) header() string { return k.At.UTC().Format(time.RFC3339Nano) }

// Headers of each tick's job. TickOf reads them.
const (
	HeaderSchedule = "jobs-schedule"      // the ID of the schedule
	HeaderTick     = "jobs-schedule-tick" // the nominal time of the tick, in RFC 3339
)

// Tick says which tick of which schedule enqueued a job.
type Tick struct {
	Schedule string
	At       time.Time // the nominal time; for RunNow, the time of the call
}

// TickOf returns the tick that enqueued a job; ok is false if no schedule did.
func TickOf(job *jobs.Job) (t Tick, ok bool) {
	at, err := time.Parse(time.RFC3339Nano, job.Header(HeaderTick))
	if err != nil || job.Header(HeaderSchedule) == "" {
		return Tick{}, false
	}
	return Tick{Schedule: job.Header(HeaderSchedule), At: at}, true
}

// task returns the task to enqueue for a tick. Its options override every default of a client.
func (r *record) task(schedule string, k tick) *jobs.Task {
	j := &r.Job
	opts := []jobs.Option{
		jobs.WithoutUnique(), jobs.WithoutHeaders(),
		jobs.WithLabels(), jobs.WithLabelShare("none", 0), // the name of the queue has the labels
		jobs.WithQueue(j.Queue), jobs.WithTypeVersion(j.TypeVersion), jobs.WithHeaders(j.Headers), jobs.WithPriority(j.Priority),
		jobs.WithMaxRetries(j.MaxRetries), jobs.WithCrashBudget(j.CrashBudget), jobs.WithTimeout(time.Duration(j.Timeout)),
		jobs.WithRetention(time.Duration(j.Retention)), jobs.WithBackoff(j.Backoff), jobs.WithPartitionKey(j.Key),
		jobs.WithCorrelationID(j.CorrelationID), jobs.WithIdempotencyKey(j.IdempotencyKey), jobs.WithPayloadRef(j.PayloadRef),
		jobs.WithSource(j.Source), jobs.WithDelay(0), jobs.WithDeadline(time.Time{}),
		jobs.WithID(k.jobID(schedule)), jobs.WithHeader(HeaderSchedule, schedule),
		jobs.WithHeader(HeaderTick, k.header()),
	}
	for name, value := range j.HeaderBytes {
		opts = append(opts, jobs.WithHeader(name, string(value)))
	}
	if j.Source == "" {
		opts = append(opts, jobs.WithSource(schedule))
	}
	if r.Expiry > 0 {
		opts = append(opts, jobs.WithDeadline(k.At.Add(time.Duration(r.Expiry))))
	}
	if u := j.Unique; u.Key != "" {
		opts = append(opts, jobs.WithUniqueKey(u.Key))
		switch u.Mode {
		case broker.UniqueUntilStarted:
			opts = append(opts, jobs.WithUniqueUntilStarted(u.TTL))
		case broker.UniqueWindow:
			opts = append(opts, jobs.WithUniqueWindow(u.TTL))
		default:
			opts = append(opts, jobs.WithUniqueUntilDone(u.TTL))
		}
		switch u.Conflict { // a debounced job has a delay, which newJob refuses
		case broker.ConflictReplace:
			opts = append(opts, jobs.WithUniqueReplace())
		case broker.ConflictKeepLast:
			opts = append(opts, jobs.WithUniqueKeepLast())
		}
	}
	return jobs.NewTask(j.Type, j.payload(), opts...)
}

// newJob returns the job of a tick, for a check.
func (r *record) newJob(schedule string, k tick) broker.NewJob {
	draft, err := r.task(schedule, k).Draft()
	if err != nil {
		panic(fmt.Sprintf("schedule: %v", err)) // the first draft had the same options
	}
	return draft
}
