package inspect

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
)

// claimChecked returns a pending and a dead job whose payloads are blobs, and a dead one
// whose handler fetches its payload by a reference of the application.
func claimChecked() []broker.NewJob {
	blob := broker.Body{Type: "t", Priority: broker.PriorityNormal, PayloadRef: "default/x/y",
		Headers: map[string]string{coding.HeaderClaim: "9 sha256:00"}}
	own := broker.Body{Type: "t", Priority: broker.PriorityNormal, PayloadRef: "s3://bucket/key"}
	dead := broker.Restored{State: broker.StateDead, Head: broker.Head{FinishedAt: time.Now()}}
	return []broker.NewJob{
		{Queue: "default", ID: "pending", Body: blob}, {Queue: "default", ID: "dead", Body: blob, Restore: &dead},
		{Queue: "default", ID: "own", Body: own, Restore: &dead},
	}
}

func TestClaim_JobsAreNotMovedAwayFromTheirBlobs(t *testing.T) {
	t.Parallel()
	for _, copies := range []bool{false, true} {
		from, to := newPlace(membroker.New()), newPlace(membroker.New())
		from.put(t, claimChecked()...)
		want := from.all(t, "default")
		report, err := moveAll(t.Context(), from.Inspector, "default", Destination{Broker: to.Broker, Copy: copies})
		if err != nil || report.Matched != 3 || report.Done != 1 || report.Refused != 2 {
			t.Fatalf("Move: %+v, %v; want the job without a blob to be done", report, err)
		}
		for _, r := range report.Refusals {
			if !errors.Is(r.Err, ErrClaimCheck) || !errors.Is(r.Err, broker.ErrWrongState) || !strings.Contains(r.Err.Error(), "SharedBlobs") {
				t.Errorf("%s was refused with %v; want ErrClaimCheck and what to do", r.ID, r.Err)
			}
		}
		if there := to.all(t, "default"); len(there) != 1 || there["own"].ID == "" {
			t.Errorf("at the destination are %v; want the job without a blob", there)
		}
		for id, j := range from.all(t, "default") {
			if j.State != want[id].State {
				t.Errorf("%s is %v here, want %v", id, j.State, want[id].State)
			}
		}
	}
}

func TestClaim_JobsAreMovedWithinTheirStoreAndToOneThatSharesBlobs(t *testing.T) {
	t.Parallel()
	here, there := newPlace(membroker.New()), newPlace(membroker.New())
	here.put(t, claimChecked()...)
	want := here.all(t, "default")
	report, err := moveAll(t.Context(), here.Inspector, "default", Destination{Broker: here.Broker, Queue: "other"})
	if err != nil || report.Done != len(want) || report.Refused != 0 {
		t.Errorf("to another queue: %+v, %v", report, err)
	}
	report, err = moveAll(t.Context(), here.Inspector, "other", Destination{Broker: there.Broker, Queue: "default", SharedBlobs: true})
	if err != nil || report.Done != len(want) || report.Refused != 0 {
		t.Errorf("to another store: %+v, %v", report, err)
	}
	sameJobs(t, there.all(t, "default"), want)
}

// A move that was allowed to take such jobs may have brought them to the destination
// before its process died. The next one must not put them back.
func TestClaim_AMoveIsFinishedWhateverTheNextOneIsTold(t *testing.T) {
	t.Parallel()
	from, to := newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, claimChecked()[0])
	m, err := from.mover(t.Context(), "default", Destination{Broker: to.Broker, SharedBlobs: true}, true)
	if err != nil {
		t.Fatal(err)
	}
	hold := broker.Operation{Kind: broker.OpHold, Holder: m.holder,
		Refs: []broker.Ref{{Queue: "default", ID: "pending", Epoch: broker.AnyEpoch}}}
	if _, err := from.Operate(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	report, err := from.FinishMove(t.Context(), "default", Destination{Broker: to.Broker})
	if there := to.all(t, "default"); err != nil || report.Done != 1 || len(there) != 1 {
		t.Errorf("FinishMove: %+v, %v; at the destination are %v", report, err, there)
	}
}

func TestClaim_AnExportDeletesNoJobWithItsPayloadElsewhere(t *testing.T) {
	t.Parallel()
	p := newPlace(membroker.New())
	p.put(t, claimChecked()...)
	dead := p.Select(Query{Queue: "default", State: broker.StateDead})
	var out bytes.Buffer
	if report, err := dead.Export(t.Context(), &out); err != nil || report.Done != 2 {
		t.Errorf("Export: %+v, %v; want both dead jobs", report, err)
	}
	out.Reset()
	report, err := dead.ExportAndDelete(t.Context(), &out, nil)
	if err != nil || report.Done != 1 || report.Refused != 1 || !errors.Is(report.Refusals[0].Err, ErrClaimCheck) {
		t.Errorf("ExportAndDelete: %+v, %v; want one job done and the other refused with ErrClaimCheck", report, err)
	}
	if left := p.all(t, "default"); len(left) != 2 || left["dead"].ID == "" || bytes.Contains(out.Bytes(), []byte(coding.HeaderClaim)) {
		t.Errorf("%v are left, the export is %s", left, out.String())
	}
}

func TestEnqueueCopy_RefusesAJobWhosePayloadIsABlob(t *testing.T) {
	t.Parallel()
	p := newPlace(membroker.New())
	p.put(t, claimChecked()...)
	for id, want := range map[string]error{"dead": ErrClaimCheck, "pending": ErrClaimCheck, "own": nil} {
		j, err := p.Job(t.Context(), "default", id)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.EnqueueCopy(t.Context(), j, "copy of "+id); !errors.Is(err, want) {
			t.Errorf("%s: EnqueueCopy says %v, want %v", id, err, want)
		}
	}
	if n := len(p.all(t, "default")); n != 4 {
		t.Errorf("there are %d jobs, want 4: one copy", n)
	}
}
