package riverdata

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Row is a job as River stores it. The order of the fields is that of the columns
// which Store.Jobs selects.
type Row struct {
	ID          int64
	State       string
	Attempt     int
	MaxAttempts int
	CreatedAt   time.Time
	FinalizedAt *time.Time
	ScheduledAt time.Time
	Priority    int
	Args        string // JSON
	Errors      string // JSON: a list, or empty
	Kind        string
	Metadata    string // JSON
	Queue       string
	Tags        []string
}

// The source, and the additional headers, of jobs that come from River.
const (
	Source         = "river"
	TagsHeader     = "river-tags"     // tags, separated by commas
	MetadataHeader = "river-metadata" // JSON, unless it was empty
)

// Parked is the due time of a job that was pending in River. There it waits until somebody makes it
// available; here it waits until somebody reschedules it.
var Parked = time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)

// NewJob returns the job that the row becomes. Its ID is "river-" and River's ID. It has as many
// attempts left as in River. The error, broker.ErrMalformed, comes with a job that has nothing but its
// ID and queue.
func (r *Row) NewJob() (broker.NewJob, error) {
	job := broker.NewJob{Queue: r.Queue, ID: "river-" + strconv.FormatInt(r.ID, 10)}
	errors, err := r.errors()
	if err != nil {
		return job, err
	}
	job.Body = broker.Body{Type: r.Kind, Payload: []byte(r.Args), Priority: broker.Priority(r.Priority),
		MaxRetries: max(r.MaxAttempts-1, 0), GivenID: true, Source: Source, Headers: r.headers()}
	job.Restore = &broker.Restored{CreatedAt: r.CreatedAt.UTC(), Head: broker.Head{
		Failures: r.Attempt, Deliveries: r.Attempt, Errors: errors}}
	restore := job.Restore
	switch r.State {
	case "available":
		restore.State = broker.StatePending
	case "scheduled":
		restore.State, job.RunAt = broker.StateScheduled, r.ScheduledAt.UTC()
	case "retryable":
		restore.State, job.RunAt = broker.StateRetry, r.ScheduledAt.UTC()
	case "pending":
		restore.State, job.RunAt = broker.StateScheduled, Parked
	case "discarded":
		restore.State, restore.Head.Reason = broker.StateDead, broker.ReasonRetries
		if r.Attempt < r.MaxAttempts {
			restore.Head.Reason = broker.ReasonSkipRetry
		}
		if r.FinalizedAt != nil {
			restore.Head.FinishedAt = r.FinalizedAt.UTC()
		}
	default:
		return broker.NewJob{Queue: job.Queue, ID: job.ID}, fmt.Errorf("%w: River's state %q", broker.ErrMalformed, r.State)
	}
	return job, nil
}

func (r *Row) headers() map[string]string {
	headers := make(map[string]string)
	if len(r.Tags) > 0 {
		headers[TagsHeader] = strings.Join(r.Tags, ",")
	}
	if r.Metadata != "" && r.Metadata != "{}" {
		headers[MetadataHeader] = r.Metadata
	}
	if len(headers) == 0 {
		return nil
	}
	return headers
}

// errors returns the error history, shortened to the length that any job keeps.
func (r *Row) errors() (log broker.ErrorLog, err error) {
	if r.Errors == "" {
		return log, nil
	}
	var all []struct {
		At      time.Time `json:"at"`
		Attempt int       `json:"attempt"` // from 1
		Error   string    `json:"error"`
		Trace   string    `json:"trace"`
	}
	if err := json.Unmarshal([]byte(r.Errors), &all); err != nil {
		return log, fmt.Errorf("%w: River's errors of a job", broker.ErrMalformed)
	}
	for _, e := range all {
		log = log.With(broker.Failure{At: e.At.UTC(), Attempt: max(e.Attempt-1, 0), Message: e.Error, Stack: e.Trace}, 0)
	}
	return log, nil
}
