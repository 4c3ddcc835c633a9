package relay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/internal/coding"
	"github.com/seed81422ce9/jobs/internal/handworker"
)

// A job whose payload is a blob is relayed only if the relay was told that the stores
// share blobs.
func TestRelay_LeavesClaimChecksUnlessTheStoresShareBlobs(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		blob := broker.Body{Type: "t", Priority: broker.PriorityNormal, PayloadRef: "outbox/x/y",
			Headers: map[string]string{coding.HeaderClaim: "9 sha256:00"}}
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "blob", Body: blob},
			broker.NewJob{Queue: outbox, ID: "own", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal, PayloadRef: "s3://bucket/key"}})
		r := w.relay(w.from, w.to)
		stop := w.run(r)
		pass(time.Second)
		j := find(t, w.from, outbox, "blob")
		if j == nil || j.State != broker.StateDead || j.Errors.Last().Code != string(RefusedClaimCheck) ||
			!strings.Contains(j.Errors.Last().Message, "SharedBlobs") {
			t.Errorf("the job is %+v at the source; want dead, with what to do", j)
		}
		if s := r.Stats(); s.Refused[RefusedClaimCheck] != 1 || s.Relayed != 1 || find(t, w.to, mail, "own") == nil {
			t.Errorf("the relay says %+v; want one refusal, and the job with a reference of its own at the target", s)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		decide(t, w.from, broker.OpRedrive, outbox, "blob")
		w.run(w.relay(w.from, w.to, func(c *Config) { c.SharedBlobs = true }))
		pass(time.Second)
		if j := find(t, w.to, mail, "blob"); j == nil || j.PayloadRef != blob.PayloadRef {
			t.Errorf("with shared blobs the job at the target is %+v", j)
		}
	})
}

// A job that an earlier relay may have sent is refused only if it is not at the target. Jobs that can be
// sent travel beside it.
func TestRelay_RefusesAClaimCheckThatCameBeforeUnlessItHasArrived(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		plain := broker.Body{Type: "t", Priority: broker.PriorityNormal, GivenID: true, Retention: time.Hour}
		blob, other := plain, plain
		blob.PayloadRef, blob.Headers = "outbox/x/y", map[string]string{coding.HeaderClaim: "9 sha256:00"}
		other.Type = "other"
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "sent", Body: blob}, broker.NewJob{Queue: outbox, ID: "unsent", Body: blob},
			broker.NewJob{Queue: outbox, ID: "taken", Body: blob}, broker.NewJob{Queue: outbox, ID: "plain", Body: plain})
		accepted(t, w.to, broker.NewJob{Queue: mail, ID: "sent", Body: blob}, broker.NewJob{Queue: mail, ID: "taken", Body: other})
		server := handworker.New(t, w.from, "server", outbox)
		for _, j := range []broker.Job{server.Claim(), server.Claim(), server.Claim(), server.Claim()} {
			server.Settle(j, broker.Crash(0, broker.Failure{Message: "its worker died"}))
		}
		if _, err := w.from.Retire(t.Context(), broker.RetireRequest{Worker: "server", Queues: []string{outbox}}); err != nil {
			t.Fatal(err)
		}
		cut := faulty.Wrap(w.to, faulty.Plan{{Method: "Find", Call: 1, Fault: faulty.Fault{Before: errors.New("cut off")}}})
		w.run(w.relay(w.from, cut))
		pass(time.Minute)
		for id, want := range map[string]struct {
			broker.State
			Refusal
		}{
			"sent": {broker.StateCompleted, ""}, "plain": {broker.StateCompleted, ""},
			"unsent": {broker.StateDead, RefusedClaimCheck}, "taken": {broker.StateDead, RefusedID},
		} {
			j := find(t, w.from, outbox, id)
			if j == nil || j.State != want.State || want.State == broker.StateDead && j.Errors.Last().Code != string(want.Refusal) {
				t.Errorf("%s is %+v at the source, want it %v %s", id, j, want.State, want.Refusal)
			}
		}
		if find(t, w.to, mail, "unsent") != nil || find(t, w.to, mail, "plain") == nil {
			t.Error("the target has a blob's job that it did not have before, or lacks the job beside it")
		}
	})
}
