package inspect

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// lineVersion is the version of the lines that Export writes. Import refuses newer
// ones. Each new field raises it, so that no program drops a field that it does not
// know.
const lineVersion = 1

// line is a job in an export: one JSON object on one line, in ASCII. Times are
// RFC 3339 in UTC, to the microsecond. Durations have the format of
// time.ParseDuration. Payload, result, checkpoint, results of steps, and head are
// base64. Fields that are empty or zero are left out.
type line struct {
	Version        int          `json:"v"`
	Queue          string       `json:"queue"`
	ID             string       `json:"id"`
	Type           string       `json:"type"`
	TypeVersion    int          `json:"type_version,omitempty"`
	State          broker.State `json:"state"`
	Reason         string       `json:"reason,omitempty"`
	Suppressed     bool         `json:"suppressed,omitempty"`
	Priority       uint8        `json:"priority"`
	MaxRetries     int          `json:"max_retries"`
	CrashBudget    int          `json:"crash_budget,omitempty"`
	Timeout        lineSpan     `json:"timeout,omitempty"`
	Deadline       time.Time    `json:"deadline,omitzero"`
	Retention      lineSpan     `json:"retention,omitempty"`
	Backoff        *lineBackoff `json:"backoff,omitempty"`
	Unique         *lineUnique  `json:"unique,omitempty"`
	Key            string       `json:"key,omitempty"`
	GivenID        bool         `json:"given_id,omitempty"`
	CorrelationID  string       `json:"correlation_id,omitempty"`
	IdempotencyKey string       `json:"idempotency_key,omitempty"`
	PayloadRef     lineText     `json:"payload_ref,omitzero"`
	Source         string       `json:"source,omitempty"`
	Headers        []lineHeader `json:"headers,omitempty"`
	Payload        []byte       `json:"payload,omitempty"`
	CreatedAt      time.Time    `json:"created_at,omitzero"`
	RunAt          time.Time    `json:"run_at,omitzero"`
	FinishedAt     time.Time    `json:"finished_at,omitzero"`
	Epoch          int64        `json:"epoch,omitempty"`
	Deliveries     int          `json:"deliveries,omitempty"`
	Failures       int          `json:"failures,omitempty"`
	Crashes        int          `json:"crashes,omitempty"`
	Snoozes        int          `json:"snoozes,omitempty"`
	ErrorsDropped  int          `json:"errors_dropped,omitempty"`
	Errors         []lineError  `json:"errors,omitempty"`
	Result         []byte       `json:"result,omitempty"`
	Checkpoint     []byte       `json:"checkpoint,omitempty"`
	Steps          []lineStep   `json:"steps,omitempty"`
	Progress       *lineShare   `json:"progress,omitempty"`
	PutOffs        []linePutOff `json:"put_offs,omitempty"`
	Head           []byte       `json:"head,omitempty"` // its stored form, if a newer version wrote it
}

type lineBackoff struct {
	Kind string   `json:"kind"`
	Base lineSpan `json:"base,omitempty"`
	Max  lineSpan `json:"max,omitempty"`
}

type lineUnique struct {
	Key  string   `json:"key"`
	Mode string   `json:"mode"`
	TTL  lineSpan `json:"ttl,omitempty"`

	Conflict string   `json:"conflict,omitempty"` // empty: refuse
	Latest   lineSpan `json:"latest,omitempty"`
}

type lineHeader struct {
	Name  lineText `json:"name"`
	Value lineText `json:"value"`
}

type lineError struct {
	At      time.Time `json:"at,omitzero"`
	Attempt int       `json:"attempt"`
	Code    lineText  `json:"code,omitzero"`
	Class   lineText  `json:"class,omitzero"`
	Message lineText  `json:"message,omitzero"`
	Stack   lineText  `json:"stack,omitzero"`
	Worker  lineText  `json:"worker,omitzero"`
	Version lineText  `json:"version,omitzero"`
}

// Names of what the broker stores as numbers.
var (
	backoffNames = []string{"default", "exponential", "linear", "constant"}
	modeNames    = []string{"until_done", "until_started", "window"}

	conflictNames = []string{"refuse", "replace", "debounce", "keep_last"}

	reasonNames = func() (names []string) {
		for r := range DeadReason(100) {
			names = append(names, r.String())
		}
		return names
	}()
)

func nameOf(names []string, number int) string {
	if number < len(names) {
		return names[number]
	}
	return strconv.Itoa(number)
}

func numberOf(field string, names []string, name string) (uint8, error) {
	i := slices.Index(names, name)
	if i < 0 {
		return 0, broker.Invalid(field, "is not one of %s", strings.Join(names[:min(len(names), 7)], ", "))
	}
	return uint8(i), nil
}

// lineSpan is a duration, as in "1h30m".
type lineSpan time.Duration

func (s lineSpan) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

func (s *lineSpan) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = lineSpan(d)
	return err
}

// lineText is a value that is nearly always text. It is written as a string if it is
// valid UTF-8, and otherwise as {"base64": "…"}.
type lineText string

type encodedText struct {
	Base64 []byte `json:"base64"`
}

func (t lineText) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encodedText{[]byte(t)})
}

func (t *lineText) UnmarshalJSON(p []byte) error {
	if bytes.HasPrefix(p, []byte{'{'}) {
		var e encodedText
		err := json.Unmarshal(p, &e)
		*t = lineText(e.Base64)
		return err
	}
	return json.Unmarshal(p, (*string)(t))
}

func appendLine(dst []byte, j *broker.Job) ([]byte, error) {
	l := line{Version: lineVersion, Queue: j.Queue, ID: j.ID, Type: j.Type, TypeVersion: j.TypeVersion, State: j.State,
		Reason: j.Reason.String(), Suppressed: j.Suppressed, Priority: uint8(j.Priority), MaxRetries: j.MaxRetries,
		CrashBudget: j.CrashBudget, Timeout: lineSpan(j.Timeout), Deadline: j.Deadline.UTC(), Retention: lineSpan(j.Retention),
		Key: j.Key, GivenID: j.GivenID, CorrelationID: j.CorrelationID, IdempotencyKey: j.IdempotencyKey,
		PayloadRef: lineText(j.PayloadRef), Source: j.Source, Payload: j.Payload,
		CreatedAt: j.CreatedAt.UTC(), RunAt: j.RunAt.UTC(), FinishedAt: j.FinishedAt.UTC(),
		Epoch: j.Epoch, Deliveries: j.Deliveries, Failures: j.Failures, Crashes: j.Crashes, Snoozes: j.Snoozes,
		ErrorsDropped: j.Errors.Dropped, Result: j.Result, Head: unreadHead(j)}
	if b := j.Backoff; b != (broker.Backoff{}) {
		l.Backoff = &lineBackoff{nameOf(backoffNames, int(b.Kind)), lineSpan(b.Base), lineSpan(b.Max)}
	}
	if u := j.Unique; u.Key != "" {
		l.Unique = &lineUnique{Key: u.Key, Mode: nameOf(modeNames, int(u.Mode)), TTL: lineSpan(u.TTL), Latest: lineSpan(u.Latest)}
		if u.Conflict != broker.ConflictRefuse {
			l.Unique.Conflict = nameOf(conflictNames, int(u.Conflict))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		l.Headers = append(l.Headers, lineHeader{lineText(name), lineText(j.Headers[name])})
	}
	for _, f := range j.Errors.Entries {
		l.Errors = append(l.Errors, lineError{f.At.UTC(), f.Attempt, lineText(f.Code), lineText(f.Class), lineText(f.Message),
			lineText(f.Stack), lineText(f.Worker), lineText(f.Version)})
	}
	l.keep(j.Kept)
	l.PutOffs = putOffLines(j.PutOffs)
	text, err := json.Marshal(l)
	if err != nil {
		return dst, err
	}
	notASCII := func(r rune) bool { return r >= unicode.MaxASCII } // escaped, so that the file is harmless in any viewer
	return append(readable.AppendJSON(dst, text, notASCII), '\n'), nil
}

// unreadHead returns the stored form of a head that has fields which this version does
// not know, and nil for other heads.
func unreadHead(j *broker.Job) []byte {
	known := broker.Head{Epoch: j.Epoch, Deliveries: j.Deliveries, Failures: j.Failures, Crashes: j.Crashes, Snoozes: j.Snoozes,
		Reason: j.Reason, Suppressed: j.Suppressed, FinishedAt: j.FinishedAt, Result: j.Result, Errors: j.Errors, Kept: j.Kept,
		PutOffs: j.PutOffs}
	whole := broker.AppendHead(nil, j.State, &j.Head)
	if bytes.Equal(whole, broker.AppendHead(nil, j.State, &known)) {
		return nil
	}
	return whole
}

// parseLine is the inverse of appendLine.
func parseLine(text []byte) (broker.NewJob, error) {
	var version struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return broker.NewJob{}, broker.Invalid("line", "is not a complete JSON object: %v", syntax(err))
	}
	switch {
	case version.Version < 1:
		return broker.NewJob{}, broker.Invalid("v", "is missing or below 1; give the version of the line")
	case version.Version > lineVersion:
		return broker.NewJob{}, fmt.Errorf("%w: line version %d, this program reads up to %d",
			broker.ErrNewerForm, version.Version, lineVersion)
	}
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // an unknown field would be lost
	if err := d.Decode(&l); err != nil {
		return broker.NewJob{}, broker.Invalid("line", "cannot be read: %v", syntax(err))
	}
	if d.More() {
		return broker.NewJob{}, broker.Invalid("line", "has more after its object; put each job on a line of its own")
	}
	return l.job()
}

// syntax returns the text of an error about JSON without the JSON itself, which may be
// part of a payload.
func syntax(err error) string {
	switch e := err.(type) {
	case *json.SyntaxError:
		return fmt.Sprintf("at byte %d", e.Offset)
	case *json.UnmarshalTypeError:
		return fmt.Sprintf("the field %q does not take a JSON %s", e.Field, e.Value)
	case base64.CorruptInputError:
		return "bytes that are not base64"
	}
	return readable.Plain(strings.TrimPrefix(err.Error(), "json: "))
}

func (l *line) job() (broker.NewJob, error) {
	j := broker.Job{Queue: l.Queue, ID: l.ID, State: l.State, CreatedAt: l.CreatedAt, RunAt: l.RunAt}
	j.Body = broker.Body{Type: l.Type, TypeVersion: l.TypeVersion, Payload: l.Payload, Priority: broker.Priority(l.Priority),
		MaxRetries: l.MaxRetries, CrashBudget: l.CrashBudget, Timeout: time.Duration(l.Timeout), Deadline: l.Deadline,
		Retention: time.Duration(l.Retention), Key: l.Key, GivenID: l.GivenID, CorrelationID: l.CorrelationID,
		IdempotencyKey: l.IdempotencyKey, PayloadRef: string(l.PayloadRef), Source: l.Source}
	if b := l.Backoff; b != nil {
		kind, err := numberOf("backoff kind", backoffNames, b.Kind)
		if err != nil {
			return broker.NewJob{}, err
		}
		j.Backoff = broker.Backoff{Kind: broker.BackoffKind(kind), Base: time.Duration(b.Base), Max: time.Duration(b.Max)}
	}
	if u := l.Unique; u != nil {
		mode, err := numberOf("unique mode", modeNames, u.Mode)
		if err != nil {
			return broker.NewJob{}, err
		}
		conflict, err := numberOf("unique conflict", conflictNames, cmp.Or(u.Conflict, conflictNames[0]))
		if err != nil {
			return broker.NewJob{}, err
		}
		j.Unique = broker.Unique{Key: u.Key, Mode: broker.UniqueMode(mode), TTL: time.Duration(u.TTL),
			Conflict: broker.UniqueConflict(conflict), Latest: time.Duration(u.Latest)}
	}
	reason, err := numberOf("reason", reasonNames, l.Reason)
	if err != nil {
		return broker.NewJob{}, err
	}
	for _, h := range l.Headers {
		if j.Headers == nil {
			j.Headers = make(map[string]string, len(l.Headers))
		}
		if _, twice := j.Headers[string(h.Name)]; twice {
			return broker.NewJob{}, broker.Invalid("headers", "have a name twice; remove one")
		}
		j.Headers[string(h.Name)] = string(h.Value)
	}
	j.Head = broker.Head{Epoch: l.Epoch, Deliveries: l.Deliveries, Failures: l.Failures, Crashes: l.Crashes, Snoozes: l.Snoozes,
		Reason: DeadReason(reason), Suppressed: l.Suppressed, FinishedAt: l.FinishedAt, Result: l.Result, Kept: l.kept(),
		PutOffs: putOffsOf(l.PutOffs)}
	j.Errors.Dropped = l.ErrorsDropped
	for _, e := range l.Errors {
		j.Errors.Entries = append(j.Errors.Entries, broker.Failure{At: e.At, Attempt: e.Attempt,
			Code: string(e.Code), Class: string(e.Class), Message: string(e.Message),
			Stack: string(e.Stack), Worker: string(e.Worker), Version: string(e.Version)})
	}
	if len(l.Head) > 0 {
		_, head, err := broker.ParseHead(l.Head)
		if err != nil && !errors.Is(err, broker.ErrNewerForm) {
			return broker.NewJob{}, broker.Invalid("head", "is not a stored head: %v", err)
		}
		j.Head = head
	}
	return j.Copy(), nil
}

type lineStep struct {
	Name   string `json:"name"`
	Result []byte `json:"result,omitempty"`
}

type lineShare struct {
	Done  int64    `json:"done"`
	Total int64    `json:"total,omitempty"`
	Note  lineText `json:"note,omitzero"`
}

type linePutOff struct {
	Cause   string    `json:"cause"`
	Times   int       `json:"times"`
	Since   time.Time `json:"since,omitzero"`
	Charged int       `json:"charged"`
}

// keep sets checkpoint, steps and progress.
func (l *line) keep(k *broker.Kept) {
	if k == nil {
		return
	}
	l.Checkpoint = k.Checkpoint
	for _, s := range k.Steps {
		l.Steps = append(l.Steps, lineStep{s.Name, s.Result})
	}
	if p := k.Progress; !p.IsZero() {
		l.Progress = &lineShare{p.Done, p.Total, lineText(p.Note)}
	}
}

// kept is the inverse of keep.
func (l *line) kept() *broker.Kept {
	if len(l.Checkpoint) == 0 && len(l.Steps) == 0 && l.Progress == nil {
		return nil
	}
	k := &broker.Kept{Checkpoint: l.Checkpoint}
	for _, s := range l.Steps {
		k.Steps = append(k.Steps, broker.DoneStep{Name: s.Name, Result: s.Result})
	}
	if p := l.Progress; p != nil {
		k.Progress = broker.Progress{Done: p.Done, Total: p.Total, Note: string(p.Note)}
	}
	return k
}

func putOffLines(all []broker.PutOff) (lines []linePutOff) {
	for _, p := range all {
		lines = append(lines, linePutOff{p.Cause, p.Times, p.Since.UTC(), p.Charged})
	}
	return lines
}

// putOffsOf is the inverse of putOffLines.
func putOffsOf(lines []linePutOff) (all []broker.PutOff) {
	for _, l := range lines {
		all = append(all, broker.PutOff{Cause: l.Cause, Times: l.Times, Since: l.Since, Charged: l.Charged})
	}
	return all
}
