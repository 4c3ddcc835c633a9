package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/internal/handworker"
)

// strict is a store that refuses payloads of more than 100 bytes.
func strict(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		req, enqueue := c.Request.(*broker.EnqueueRequest)
		if !enqueue {
			return next(ctx)
		}
		all := req.Jobs
		receipts := make([]broker.Receipt, len(all))
		for i := range all {
			receipts[i] = broker.Receipt{Queue: all[i].Queue, ID: all[i].ID, Err: all[i].Check(broker.Limits{MaxPayload: 100})}
			if receipts[i].Err != nil {
				continue
			}
			some, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: all[i : i+1]})
			if err != nil {
				return err
			}
			receipts[i] = some[0]
		}
		*c.Reply.(*[]broker.Receipt) = receipts
		return nil
	})
}

// A job that the target refuses for good is dead at the source; the others are
// relayed. A job that an operator redrives is sent again.
func TestRelay_RefusedJobsAreDeadAtTheSource(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		body := broker.Body{Type: "t", Priority: broker.PriorityNormal}
		given, unique, large := body, body, body
		given.GivenID, unique.Unique.Key, large.Payload = true, "u", make([]byte, 1000)
		// The target has a job with one of the IDs, remembers another ID, and has the
		// holder of the unique key.
		accepted(t, w.to, broker.NewJob{Queue: mail, ID: "there", Body: large}, broker.NewJob{Queue: mail, ID: "holder", Body: unique})
		accepted(t, w.to, broker.NewJob{Queue: mail, ID: "remembered", Body: given})
		decide(t, w.to, broker.OpDelete, mail, "remembered")
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "there", Body: body}, broker.NewJob{Queue: outbox, ID: "key", Body: unique},
			broker.NewJob{Queue: outbox, ID: "large", Body: large}, broker.NewJob{Queue: outbox, ID: "remembered", Body: body},
			broker.NewJob{Queue: outbox, ID: "good", Body: body})
		r := w.relay(w.from, strict(w.to))
		w.run(r)
		pass(time.Second)
		for id, code := range map[string]Refusal{"there": RefusedID, "remembered": RefusedID, "key": RefusedKey, "large": RefusedInvalid} {
			j := find(t, w.from, outbox, id)
			if j == nil || j.State != broker.StateDead || j.Errors.Last().Code != string(code) || !strings.Contains(j.Errors.Last().Message, mail) {
				t.Errorf("%s is %+v at the source, want dead with the code %s and a message that names the target", id, j, code)
			}
		}
		if s := r.Stats(); s.Relayed != 1 || s.Refused[RefusedID] != 2 || s.Refused[RefusedKey] != 1 || s.Refused[RefusedInvalid] != 1 ||
			s.Err != nil {
			t.Errorf("the relay says %+v", s)
		}
		if find(t, w.to, mail, "good") == nil {
			t.Error("a good job among refused ones did not arrive")
		}

		// The target still remembers the ID: the relay must not take a redriven job that
		// was refused for one that had arrived.
		decide(t, w.to, broker.OpDelete, mail, "holder")
		for _, id := range []string{"key", "remembered"} {
			decide(t, w.from, broker.OpRedrive, outbox, id)
		}
		pass(time.Second)
		if find(t, w.to, mail, "key") == nil {
			t.Error("a job whose key was freed did not arrive after a redrive")
		}
		if j := find(t, w.from, outbox, "remembered"); j == nil || j.State != broker.StateDead {
			t.Errorf("a refused job that was redriven is %+v, want dead again", j)
		}
		pass(2 * time.Hour)
		decide(t, w.from, broker.OpRedrive, outbox, "remembered")
		pass(time.Second)
		if find(t, w.to, mail, "remembered") == nil {
			t.Error("a job did not arrive when its ID was forgotten")
		}
	})
}

func decide(t *testing.T, b broker.Broker, kind broker.OperationKind, queue, id string) {
	t.Helper()
	results, err := b.Operate(t.Context(), broker.Operation{Kind: kind, Refs: []broker.Ref{{Queue: queue, ID: id, Epoch: broker.AnyEpoch}}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		t.Fatalf("%v of %s: %v", kind, id, err)
	}
}

// A relay that died may have sent a job. The next relay still notices that the job
// with its ID at the target is another one.
func TestRelay_AnotherJobWithTheIDOfOneThatWasPerhapsSent(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		lost := faulty.Wrap(w.to, faulty.Plan{{Method: "Enqueue", Call: 1, Fault: faulty.Fault{Before: errors.New("cut off")}}})
		body := broker.Body{Type: "ours", Priority: broker.PriorityNormal}
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "taken", Body: body}, broker.NewJob{Queue: outbox, ID: "free", Body: body})
		body.Type = "theirs"
		accepted(t, w.to, broker.NewJob{Queue: mail, ID: "taken", Body: body})
		w.run(w.relay(w.from, lost))
		pass(time.Minute)
		if j := find(t, w.from, outbox, "taken"); j == nil || j.State != broker.StateDead || j.Errors.Last().Code != string(RefusedID) {
			t.Errorf("the job is %+v at the source, want dead: another one has its ID at the target", j)
		}
		if j := find(t, w.to, mail, "free"); j == nil || j.Type != "ours" {
			t.Errorf("the job beside it is %+v at the target", j)
		}
	})
}

// The target is several shards, and one of them is the source: it has another name, and a job that was perhaps sent is
// found there. It is the relay's own job and has not arrived.
func TestRelay_ItsOwnJobAtTheTargetHasNotArrived(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		store, calls := membroker.NewStore(), 0
		to := broker.Wrap(store.Open(), func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if calls++; c.Method == "Enqueue" && calls < 10 {
				return errors.New("cut off")
			}
			err := next(ctx)
			if mark, ok := c.Reply.(*broker.Marked); ok {
				mark.Value = []byte("another store")
			}
			return err
		})
		from := store.Open()
		accepted(t, from, broker.NewJob{Queue: outbox, ID: "j", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}})
		w.run(w.relay(from, to, func(c *Config) { c.ToQueue = outbox }))
		pass(time.Minute)
		if j := find(t, from, outbox, "j"); j == nil || j.State != broker.StateDead || j.Errors.Last().Code != string(RefusedID) {
			t.Errorf("the job is %+v, want it dead", j)
		}
	})
}

// The answer of the target was lost. Then a producer replaced the content of the job there.
func TestRelay_AJobThatArrivedAndWasReplacedIsTheSame(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		job := broker.NewJob{Queue: outbox, ID: "sent", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal, Retention: time.Hour,
			Unique: broker.Unique{Key: "u", Conflict: broker.ConflictReplace}, Headers: map[string]string{"trace": "1"}}}
		accepted(t, w.from, job)
		lost := broker.Wrap(w.to, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			err := next(ctx)
			if req, ok := c.Request.(*broker.EnqueueRequest); ok && job.Queue == outbox && req.Jobs[0].ID == "sent" {
				job.Queue, job.ID, job.Body.Headers = mail, "new", map[string]string{"trace": "2"}
				accepted(t, w.to, job)
				return errors.New("cut off")
			}
			return err
		})
		w.run(w.relay(w.from, lost))
		pass(time.Minute)
		if j := find(t, w.from, outbox, "sent"); j == nil || j.State != broker.StateCompleted {
			t.Errorf("the job is %+v at the source, want completed", j)
		}
		if j := find(t, w.to, mail, "sent"); j == nil || j.Headers["trace"] != "2" {
			t.Errorf("the job is %+v at the target, want the new content", j)
		}
	})
}

// A job that another worker crashed or released may have been sent before: it is
// not refused if the target has it.
func TestRelay_AJobThatComesAgainAndHasArrived(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(0)
		w.put(threeKeys, 3)
		job := broker.NewJob{Queue: mail, ID: w.sent[0],
			Body: broker.Body{Type: "task", Priority: broker.PriorityNormal, Key: "a", MaxRetries: 3, GivenID: true}}
		accepted(t, w.to, job) // as if a relay had sent it and died
		server := handworker.New(t, w.from, "server", outbox)
		server.Settle(server.Claim(), broker.Crash(0, broker.Failure{Message: "its worker died"}))
		if _, err := w.from.Retire(t.Context(), broker.RetireRequest{Worker: "server", Queues: []string{outbox}}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r := w.relay(w.from, w.to)
		w.run(r)
		pass(time.Second)
		w.exactlyOnce("one had arrived")
		if s := r.Stats(); s.Relayed != 3 {
			t.Errorf("the relay says %+v, want three relayed", s)
		}
	})
}

// An unreadable job is dead if it is malformed, and waits for a newer relay if a
// newer program wrote it.
func TestRelay_UnreadableJobs(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		body := broker.Body{Type: "t", Priority: broker.PriorityNormal}
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "bad", Body: body}, broker.NewJob{Queue: outbox, ID: "newer", Body: body})
		broken := broker.Wrap(w.from, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			err := next(ctx)
			if claimed, ok := c.Reply.(*broker.Claimed); ok {
				for i := range claimed.Jobs {
					claimed.Jobs[i].Broken = map[string]error{"bad": broker.ErrMalformed, "newer": broker.ErrNewerForm}[claimed.Jobs[i].ID]
				}
			}
			return err
		})
		stop := w.run(w.relay(broken, w.to))
		pass(time.Second)
		if j := find(t, w.from, outbox, "bad"); j == nil || j.State != broker.StateDead || j.Reason != broker.ReasonUndecodable {
			t.Errorf("a malformed job is %+v, want dead as undecodable", j)
		}
		pass(time.Hour)
		if j := find(t, w.from, outbox, "newer"); j == nil || j.State != broker.StateRetry ||
			j.Snoozes < 10 || j.PutOffFor(broker.ReasonUndecodable.String()).Times != j.Snoozes ||
			len(j.Errors.Entries) != 1 || j.Errors.Dropped != 0 || j.Errors.Last().Class != jobs.ClassUnreadable {
			t.Errorf("a job of a newer form is %+v, want that it waits, with one entry in its history that says why", j)
		}
		stop()
		w.run(w.relay(w.from, w.to))
		pass(2 * time.Minute)
		if find(t, w.to, mail, "newer") == nil {
			t.Error("a relay that can read the job did not move it")
		}
	})
}
