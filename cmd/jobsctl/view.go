package main

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs/broker"
)

// jobView is a job as -o json writes it. Its names are a contract: fields are added,
// none is renamed.
type jobView struct {
	Queue           string            `json:"queue"`
	ID              string            `json:"id"`
	Type            string            `json:"type"`
	State           string            `json:"state"`
	Priority        int               `json:"priority"`
	Attempt         int               `json:"attempt"`
	MaxRetries      int               `json:"max_retries"`
	Deliveries      int               `json:"deliveries"`
	Crashes         int               `json:"crashes,omitempty"`
	Snoozes         int               `json:"snoozes,omitempty"`
	Key             string            `json:"key,omitempty"`
	UniqueKey       string            `json:"unique_key,omitempty"`
	CorrelationID   string            `json:"correlation_id,omitempty"`
	IdempotencyKey  string            `json:"idempotency_key,omitempty"`
	Source          string            `json:"source,omitempty"`
	CreatedAt       *time.Time        `json:"created_at,omitempty"`
	RunAt           *time.Time        `json:"run_at,omitempty"`
	Deadline        *time.Time        `json:"deadline,omitempty"`
	FinishedAt      *time.Time        `json:"finished_at,omitempty"`
	Timeout         string            `json:"timeout,omitempty"`
	Worker          string            `json:"worker,omitempty"`
	Holder          string            `json:"holder,omitempty"`
	CancelRequested bool              `json:"cancel_requested,omitempty"`
	Reason          string            `json:"reason,omitempty"`
	Suppressed      bool              `json:"suppressed,omitempty"`
	Headers         map[string]string `json:"headers,omitempty"`
	Errors          []failureView     `json:"errors,omitempty"`
	ErrorsDropped   int               `json:"errors_dropped,omitempty"`
	LastError       string            `json:"last_error,omitempty"`
	Unreadable      string            `json:"unreadable,omitempty"`
	PayloadBytes    *int              `json:"payload_bytes,omitempty"`
	Payload         json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64   string            `json:"payload_base64,omitempty"`
	Result          json.RawMessage   `json:"result,omitempty"`
	ResultBase64    string            `json:"result_base64,omitempty"`
	Progress        *progressView     `json:"progress,omitempty"`
	CheckpointBytes int               `json:"checkpoint_bytes,omitempty"`
	StepsDone       []string          `json:"steps_done,omitempty"`

	Checkpoint       json.RawMessage `json:"checkpoint,omitempty"`
	CheckpointBase64 string          `json:"checkpoint_base64,omitempty"`
}

// progressView is a job's progress, as reported by its handler.
type progressView struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"`
	Note  string `json:"note,omitempty"`
}

// failureView is one entry of the error history.
type failureView struct {
	At      *time.Time `json:"at,omitempty"`
	Attempt int        `json:"attempt"`
	Class   string     `json:"class,omitempty"`
	Code    string     `json:"code,omitempty"`
	Message string     `json:"message"`
	Stack   string     `json:"stack,omitempty"`
	Worker  string     `json:"worker,omitempty"`
	Version string     `json:"version,omitempty"`
}

func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// view returns what lists show of a job.
func view(j *broker.Job) jobView {
	v := jobView{Queue: j.Queue, ID: j.ID, Type: j.Type, State: j.State.String(), Priority: int(j.Priority), Attempt: j.Failures,
		MaxRetries: j.MaxRetries, Deliveries: j.Deliveries, Crashes: j.Crashes, Snoozes: j.Snoozes, Key: j.Key, UniqueKey: j.Unique.Key,
		CorrelationID: j.CorrelationID, IdempotencyKey: j.IdempotencyKey, Source: j.Source, CreatedAt: at(j.CreatedAt), RunAt: at(j.RunAt),
		Deadline: at(j.Deadline), FinishedAt: at(j.FinishedAt), Worker: j.Worker, Holder: j.Holder, CancelRequested: j.CancelRequested,
		Suppressed: j.Suppressed, LastError: j.Errors.Last().Message}
	if j.State == broker.StateDead {
		v.Reason = j.Reason.String()
	}
	if k := j.Kept; k != nil && !k.Progress.IsZero() {
		v.Progress = &progressView{k.Progress.Done, k.Progress.Total, k.Progress.Note}
	}
	if j.Timeout > 0 {
		v.Timeout = j.Timeout.String()
	}
	if j.Broken != nil {
		v.Unreadable = j.Broken.Error()
	}
	return v
}

// wholeView returns everything about a job; payload, result and checkpoint only on
// request.
func wholeView(j *broker.Job, payload bool) jobView {
	v := view(j)
	v.Headers, v.ErrorsDropped, v.PayloadBytes = j.Headers, j.Errors.Dropped, new(len(j.Payload))
	for _, f := range j.Errors.Entries {
		v.Errors = append(v.Errors, failureView{At: at(f.At), Attempt: f.Attempt, Class: f.Class, Code: f.Code, Message: f.Message,
			Stack: f.Stack, Worker: f.Worker, Version: f.Version})
	}
	if k := j.Kept; k != nil {
		v.CheckpointBytes = len(k.Checkpoint)
		for _, s := range k.Steps {
			v.StepsDone = append(v.StepsDone, s.Name)
		}
		if payload {
			v.Checkpoint, v.CheckpointBase64 = encoded(k.Checkpoint)
		}
	}
	if payload {
		v.Payload, v.PayloadBase64 = encoded(j.Payload)
		v.Result, v.ResultBase64 = encoded(j.Result)
	}
	return v
}

// encoded returns p unchanged if it is JSON, and otherwise in base64.
func encoded(p []byte) (json.RawMessage, string) {
	if len(p) == 0 {
		return nil, ""
	}
	if utf8.Valid(p) && json.Valid(p) {
		return p, ""
	}
	return nil, base64.StdEncoding.EncodeToString(p)
}
