package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// pasts returns jobs in every state that can be restored, with all that a job can have,
// including hostile bytes.
func pasts() []broker.NewJob {
	now := time.Now().Truncate(time.Microsecond).UTC()
	hostile := "\x00\xff<script>\u202e\u2028\"\\\n字🙂"
	body := broker.Body{Type: "email:字", TypeVersion: 3, Payload: []byte(hostile),
		Headers:  map[string]string{"a\xfe": hostile, "plain": "text", "empty": ""},
		Priority: jobs.PriorityLow, MaxRetries: 7, CrashBudget: 2, Timeout: 90*time.Second + time.Microsecond, Deadline: now.Add(90 * time.Hour),
		Retention: 48 * time.Hour,
		Backoff:   broker.Backoff{Kind: broker.BackoffLinear, Base: time.Second, Max: time.Hour}, Key: "acme", CorrelationID: "c\u202e",
		IdempotencyKey: "i",
		PayloadRef:     "s3://\xff", Source: "shop", GivenID: true}
	head := broker.Head{Epoch: 5, Deliveries: 4, Failures: 3, Crashes: 1, Snoozes: 2,
		Errors: broker.ErrorLog{Dropped: 9, Entries: []broker.Failure{
			{At: now.Add(-time.Minute), Attempt: 2, Code: "HTTP_503", Class: "retryable", Message: hostile, Stack: "goroutine 1\n\tmain.go",
				Worker: "w", Version: "shop v1"}, {}}},
		Kept: &broker.Kept{Checkpoint: []byte(hostile),
			Steps:    []broker.DoneStep{{Name: "字🙂<b>", Result: []byte(`{"id":1}`)}, {Name: "empty"}},
			Progress: broker.Progress{Done: 3, Total: 12, Note: hostile}},
		PutOffs: []broker.PutOff{{Cause: "busy", Times: 2, Since: now.Add(-time.Hour), Charged: 6}}}
	make := func(state broker.State, change func(*broker.NewJob)) broker.NewJob {
		j := broker.NewJob{Queue: "default", ID: "job-" + state.String(), Body: body,
			Restore: &broker.Restored{State: state, CreatedAt: now.Add(-time.Hour), Head: head}}
		if change != nil {
			change(&j)
		}
		return j
	}
	ended := func(j *broker.NewJob) { j.Restore.Head.FinishedAt = now.Add(-time.Minute) }
	return []broker.NewJob{
		make(broker.StatePending, func(j *broker.NewJob) {
			j.Body.Unique = broker.Unique{Key: "u", Mode: broker.UniqueUntilDone, TTL: time.Hour}
		}),
		make(broker.StateScheduled, func(j *broker.NewJob) { j.RunAt = now.Add(time.Hour) }),
		make(broker.StateRetry, func(j *broker.NewJob) { j.RunAt = now.Add(time.Hour) }),
		make(broker.StateDead, func(j *broker.NewJob) {
			ended(j)
			j.Restore.Head.Reason, j.Restore.Head.Suppressed = broker.ReasonSkipRetry, true
			// This job has a field of a newer version, too.
			tail := binary.AppendVarint(binary.AppendUvarint(broker.AppendTail(nil, &j.Restore.Head), 99<<1), 5)
			j.Restore.Head.Errors.Entries = nil
			if err := broker.ParseTail(tail, &j.Restore.Head); err != nil {
				panic(err)
			}
		}),
		make(broker.StateCompleted, func(j *broker.NewJob) { ended(j); j.Restore.Head.Result = []byte{0xff, 0} }),
		make(broker.StateCancelled, ended),
		{Queue: "default", ID: "job-bare", Body: broker.Body{Type: "t", Priority: jobs.PriorityNormal},
			Restore: &broker.Restored{State: broker.StatePending, CreatedAt: now}},
	}
}

// place is a store with an inspector.
type place struct {
	broker.Broker
	*Inspector
}

func newPlace(b broker.Broker) place { return place{b, New(b)} }

func (p place) put(t *testing.T, batch ...broker.NewJob) {
	t.Helper()
	receipts, err := p.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: batch})
	for _, r := range receipts {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// all returns the jobs of a queue in every state, by ID, without what differs between
// stores.
func (p place) all(t *testing.T, queue string) map[string]broker.Job {
	t.Helper()
	all := make(map[string]broker.Job)
	for _, state := range broker.States() {
		for j, err := range p.Select(Query{Queue: queue, State: state, Suppressed: true}).Jobs(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, twice := all[j.ID]; twice {
				t.Errorf("%s is in two states", j.ID)
			}
			same := *j
			same.Epoch, same.GivenID = 0, false
			all[j.ID] = same
		}
	}
	return all
}

func sameJobs(t *testing.T, got, want map[string]broker.Job) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d jobs, want %d", len(got), len(want))
	}
	for id := range want {
		if !reflect.DeepEqual(got[id], want[id]) {
			t.Errorf("%s is\n%+v\nwant\n%+v", id, got[id], want[id])
		}
	}
}

func (p place) export(t *testing.T, queue string) string {
	t.Helper()
	var file bytes.Buffer
	for _, state := range broker.States() {
		if _, err := p.Select(Query{Queue: queue, State: state, Suppressed: true, NoPayload: true}).Export(t.Context(), &file); err != nil {
			t.Fatal(err)
		}
	}
	return file.String()
}

func TestExport_AnExportIsImportedWithoutLoss(t *testing.T) {
	t.Parallel()
	from, to := newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, pasts()...)
	file := from.export(t, "default")
	for _, r := range file {
		if r != '\n' && (r < ' ' || r > '~') {
			t.Fatalf("%q is in the file", r)
		}
	}
	report, err := to.Import(t.Context(), strings.NewReader(file), ImportConfig{})
	if err != nil || report.Done != len(pasts()) || report.Lines != report.Done {
		t.Fatalf("Import: %+v, %v", report, err)
	}
	sameJobs(t, to.all(t, "default"), from.all(t, "default"))

	report, err = to.Import(t.Context(), strings.NewReader(file+file), ImportConfig{})
	if err != nil || report.Done != 0 || report.Repeated != 2*len(pasts()) {
		t.Errorf("importing it twice more: %+v, %v", report, err)
	}
	sameJobs(t, to.all(t, "default"), from.all(t, "default"))

	report, err = to.Import(t.Context(), strings.NewReader(file), ImportConfig{Queue: "other", Check: true})
	if other := to.all(t, "other"); err != nil || report.Done != len(pasts()) || len(other) != 0 {
		t.Errorf("a check: %+v, %v; stored %d", report, err, len(other))
	}
	report, err = to.Import(t.Context(), strings.NewReader(file), ImportConfig{Queue: "other"})
	if other := to.all(t, "other"); err != nil || report.Done != len(pasts()) || len(other) != len(pasts()) {
		t.Errorf("into another queue: %+v, %v; stored %d", report, err, len(other))
	}
}

func TestExport_LinesThatCannotBeTakenAreReportedAndTheOthersStored(t *testing.T) {
	t.Parallel()
	good := func(id string) string {
		return `{"v":1,"queue":"default","id":"` + id + `","type":"t","state":"dead","priority":2,"max_retries":0,` +
			`"created_at":"2026-01-02T03:04:05Z"}`
	}
	lines := []struct {
		text string
		want error
		says string
	}{
		{good("a"), nil, ""},
		{"nonsense", broker.ErrInvalid, "line: invalid"},
		{good("b")[:50], broker.ErrInvalid, "line: invalid"},
		{"", nil, ""},
		{`{"v":2,"queue":"default"}`, broker.ErrNewerForm, "line version 2"},
		{`{"queue":"default"}`, broker.ErrInvalid, "v: invalid"},
		{strings.Replace(good("c"), `"v":1`, `"v":1,"extra":1`, 1), broker.ErrInvalid, "extra"},
		{strings.Replace(good("c"), `"default"`, `"{bad}"`, 1), broker.ErrInvalid, "brace"},
		{strings.Replace(good("c"), `"dead"`, `"active"`, 1), broker.ErrInvalid, "restored state"},
		{strings.Replace(good("c"), `"dead"`, `"gone"`, 1), broker.ErrInvalid, "none of waiting"},
		{strings.Replace(good("c"), `"priority":2`, `"priority":9`, 1), broker.ErrInvalid, "priority"},
		{strings.Replace(good("c"), `"v":1`, `"v":1,"payload":"*secret*"`, 1), broker.ErrInvalid, "line"},
		{strings.Replace(good("c"), `"v":1`, `"v":1,"reason":"bored"`, 1), broker.ErrInvalid, "reason"},
		{strings.Replace(good("c"), `"v":1`, `"v":1,"unique":{"key":"k","mode":"?"}`, 1), broker.ErrInvalid, "unique mode"},
		{strings.Replace(good("c"), `"v":1`, `"v":1,"headers":[{"name":"a","value":""},{"name":"a","value":""}]`, 1), broker.ErrInvalid, "twice"},
		{good("c") + good("d"), broker.ErrInvalid, "line"},
		{strings.Replace(good("a"), "03:04", "05:06", 1), broker.ErrDuplicate, "another job has this ID"},
		{strings.Replace(good("c"), `"v":1`, `"v":1,"payload":"`+strings.Repeat("A", maxLine)+`"`, 1), broker.ErrTooLarge, "the line has more"},
		{strings.Replace(good("c"), `"v":1`, `"v":1,"payload":"`+strings.Repeat("A", 2<<20)+`"`, 1), broker.ErrTooLarge, "payload"},
		{good("e"), nil, ""},
		{good("f"), nil, ""}, // without a newline
	}
	var file []string
	for _, l := range lines {
		file = append(file, l.text)
	}
	b := newPlace(membroker.New())
	report, err := b.Import(t.Context(), strings.NewReader(strings.Join(file, "\n")), ImportConfig{})
	if err != nil || report.Lines != len(lines) || report.Done != 3 || report.Refused != len(lines)-4 {
		t.Errorf("Import: %d lines, %d done, %d refused, %v", report.Lines, report.Done, report.Refused, err)
	}
	if all := b.all(t, "default"); len(all) != 3 || all["a"].ID == "" || all["e"].ID == "" || all["f"].ID == "" {
		t.Errorf("stored are %v", all)
	}
	refused := make(map[int]LineRefusal)
	for _, r := range report.Refusals {
		refused[r.Line] = r
	}
	for i, l := range lines {
		r := refused[i+1]
		switch {
		case l.want == nil && r.Err != nil, l.want != nil && !errors.Is(r.Err, l.want), r.Err != nil && !strings.Contains(r.Err.Error(), l.says):
			t.Errorf("line %d, %.80s: %v, want %v that says %q", i+1, l.text, r.Err, l.want, l.says)
		case r.Err != nil && strings.Contains(r.Err.Error(), "secret"):
			t.Errorf("the error %v quotes a payload", r.Err)
		}
	}
}

func TestExport_AnImportLeavesWhatIsThereAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 3)
	file := newPlace(b).export(t, "default")
	first := b.worker.Claim()
	b.worker.Settle(first, broker.Complete(nil))
	edited, err := b.inspector.Job(t.Context(), "default", "mail-0001")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.inspector.Edit(t.Context(), edited, []byte("new")); err != nil {
		t.Fatal(err)
	}
	report, err := b.inspector.Import(t.Context(), strings.NewReader(file), ImportConfig{})
	if err != nil || report.Repeated != 3 || report.Gone != 1 || report.Done != 0 {
		t.Errorf("one job ran, one was edited, one is as it was: %+v, %v", report, err)
	}
	if edited, err = b.inspector.Job(t.Context(), "default", "mail-0001"); err != nil || string(edited.Payload) != "new" {
		t.Errorf("the edited job is %q, %v", edited.Payload, err)
	}
	holder := mustEnqueue(t, b.client, jobs.NewTask("mail", nil), jobs.WithQueue("other"), jobs.WithUniqueKey("k"))
	line := `{"v":1,"queue":"other","id":"x","type":"t","state":"pending","priority":2,"max_retries":0,` +
		`"unique":{"key":"k","mode":"until_done"}}`
	report, err = b.inspector.Import(t.Context(), strings.NewReader(line), ImportConfig{})
	if err != nil || report.Refused != 1 || report.Refusals[0].Holder != holder.ID || !errors.Is(report.Refusals[0].Err, broker.ErrDuplicate) {
		t.Errorf("a unique key that is held: %+v, %v", report, err)
	}
}

func TestExport_AndDeleteRemovesWhatLasts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 250)
	b.die(t, 250, "no route")
	want := newPlace(b).all(t, "default")
	dead := b.inspector.Select(Query{Queue: "default", State: broker.StateDead})

	var file bytes.Buffer
	full := errors.New("disk full")
	if report, err := dead.ExportAndDelete(t.Context(), &file, func() error { return full }); !errors.Is(err, full) || report.Done != 0 ||
		b.count(t, broker.StateDead) != 250 {
		t.Errorf("a file that does not last: %+v, %v; %d are left", report, err, b.count(t, broker.StateDead))
	}
	file.Reset()
	flushes := 0
	report, err := dead.ExportAndDelete(t.Context(), &file, func() error {
		if flushes++; flushes == 2 { // another operator redrives a job that was written
			_, err := b.inspector.Select(Query{Queue: "default", IDs: []string{"mail-0150"}}).Redrive(t.Context())
			return err
		}
		return nil
	})
	if err != nil || report.Done != 249 || report.Refused != 1 || report.Refusals[0].ID != "mail-0150" || b.count(t, broker.StateDead) != 0 ||
		b.count(t, broker.StatePending) != 1 {
		t.Errorf("ExportAndDelete: %+v, %v", report, err)
	}
	if n := bytes.Count(file.Bytes(), []byte("\n")); n != 250 {
		t.Errorf("%d lines, want 250", n)
	}
	if _, err := b.inspector.Select(Query{Queue: "default", State: broker.StatePending}).Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(file.String(), "\n")
	imported, err := b.inspector.Import(t.Context(), strings.NewReader(strings.Join(lines[:150], "")), ImportConfig{})
	if err != nil || imported.Done != 150 {
		t.Errorf("back where they came from: %+v, %v", imported, err)
	}
	for id, j := range newPlace(b).all(t, "default") {
		if !reflect.DeepEqual(j, want[id]) {
			t.Errorf("%s came back as %+v, and was %+v", id, j, want[id])
		}
	}
	for _, q := range []Query{{Queue: "default", State: broker.StatePending}, {Queue: "default", IDs: []string{"a"}}} {
		if _, err := b.inspector.Select(q).ExportAndDelete(t.Context(), &file, nil); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestExport_AnExportRefusesWhatItCannotTakeWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 2, jobs.WithPartitionKey("k"))
	active := b.worker.Claim()
	var file bytes.Buffer
	report, err := b.inspector.Select(Query{Queue: "default", Key: "k"}).Export(t.Context(), &file)
	if err != nil || report.Done != 1 || report.Refused != 1 || report.Refusals[0].ID != active.ID {
		t.Errorf("with a job that runs: %+v, %v", report, err)
	}
	broken := errors.New("cannot write")
	if _, err := b.inspector.Select(Query{Queue: "default", State: broker.StatePending}).Export(t.Context(),
		brokenWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestExport_EditReplacesThePayloadOfWhatWasShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 2)
	b.die(t, 1, "no route")
	show := func(id string) *broker.Job {
		j, err := b.inspector.Job(t.Context(), "default", id)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	dead, pending := show("mail-0000"), show("mail-0001")
	for _, j := range []*broker.Job{dead, pending} {
		if err := b.inspector.Edit(t.Context(), j, []byte("\xff new")); err != nil {
			t.Errorf("%s: %v", j.ID, err)
		}
		if now := show(j.ID); string(now.Payload) != "\xff new" || now.State != j.State || now.Type != j.Type {
			t.Errorf("%s is %+v", j.ID, now)
		}
	}
	if err := b.inspector.Edit(t.Context(), dead, []byte("late")); !errors.Is(err, broker.ErrWrongState) ||
		!strings.Contains(fmt.Sprint(err), dead.ID) {
		t.Errorf("a dead job that was edited since: %v", err)
	}
	b.worker.Claim()
	if err := b.inspector.Edit(t.Context(), pending, []byte("late")); !errors.Is(err, broker.ErrWrongState) ||
		string(show(pending.ID).Payload) != "\xff new" {
		t.Errorf("a job that runs: %v", err)
	}
	if err := b.inspector.Edit(t.Context(), nil, nil); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("no job: %v", err)
	}
}

// largest is a writer that remembers its largest write.
type largest int

func (w *largest) Write(p []byte) (int, error) {
	*w = max(*w, largest(len(p)))
	return len(p), nil
}

func TestExport_LargePayloadsAreNotCollectedInMemory(t *testing.T) {
	t.Parallel()
	p := newPlace(membroker.New())
	for n := range 10 {
		p.put(t, broker.NewJob{Queue: "default", ID: fmt.Sprint(n), Body: broker.Body{Type: "t", Priority: 2, Payload: make([]byte, 900_000)}})
	}
	var most largest
	report, err := p.Select(Query{Queue: "default", State: broker.StatePending}).Export(t.Context(), &most)
	if err != nil || report.Done != 10 || most > 3_000_000 {
		t.Errorf("%+v, %v; the largest of the writes has %d bytes, want those of two lines at most", report, err, most)
	}
}
