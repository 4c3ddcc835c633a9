package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
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

// A job that an earlier relay may have sent is not refused: it may be at the target.
func TestRelay_DoesNotRefuseAClaimCheckThatMayHaveArrived(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		body := broker.Body{Type: "t", Priority: broker.PriorityNormal, PayloadRef: "outbox/x/y", GivenID: true, Retention: time.Hour,
			Headers: map[string]string{coding.HeaderClaim: "9 sha256:00"}}
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "sent", Body: body})
		accepted(t, w.to, broker.NewJob{Queue: mail, ID: "sent", Body: body})
		server := handworker.New(t, w.from, "server", outbox)
		server.Settle(server.Claim(), broker.Crash(0, broker.Failure{Message: "its worker died"}))
		if _, err := w.from.Retire(t.Context(), broker.RetireRequest{Worker: "server", Queues: []string{outbox}}); err != nil {
			t.Fatal(err)
		}
		w.run(w.relay(w.from, w.to))
		pass(time.Minute)
		if j := find(t, w.from, outbox, "sent"); j == nil || j.State != broker.StateCompleted {
			t.Errorf("the job is %+v at the source, want completed", j)
		}
	})
}
