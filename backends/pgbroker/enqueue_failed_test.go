package pgbroker

import (
	"context"
	"errors"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// Each queue of a call fails on its own. A caller that is told that a job was not stored sends
// it again under another ID.
func TestEnqueueFailed_EachJobHasTheErrorOfItsOwnQueue(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{{}, {PollOnly: true}} {
		t.Run(map[bool]string{false: "Prepared", true: "PollOnly"}[config.PollOnly], func(t *testing.T) {
			t.Parallel()
			direct := connect(t, testenv.Postgres(t), 2)
			for attempt := range 5 {
				config := config
				config.Schema = schema(t, direct)
				proxy := startCutter(t, testenv.Postgres(t))
				through := openOn(t, connect(t, proxy.url, 1), config)
				f := &inside{Broker: through.Broker, t: t, schema: config.Schema, db: direct}
				in := func(queue, id string) broker.NewJob { j := job(id); j.Queue = queue; return j }
				f.accept(f, in("a", "first"), in("b", "first"))

				proxy.last.Store(true)
				proxy.arm(0)
				receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{in("a", "lost"), in("b", "unsent")}})
				if err != nil || len(receipts) != 2 {
					t.Fatalf("answered %d receipts and %v, want a receipt for each job", len(receipts), err)
				}
				if attempt < 4 && errors.Is(receipts[0].Err, broker.ErrUnavailable) {
					continue // the cut met a statement of the background, on the one connection
				}
				if lost := receipts[0].Err; !broker.MayHaveApplied(lost) || errors.Is(lost, broker.ErrUnavailable) {
					t.Errorf("the job whose answer was lost: %v, want an error that leaves open whether it was stored", lost)
				}
				if unsent := receipts[1].Err; !errors.Is(unsent, broker.ErrUnavailable) || broker.MayHaveApplied(unsent) {
					t.Errorf("the job that was not sent: %v, want ErrUnavailable", unsent)
				}
				testenv.Eventually(t, "the job whose answer was lost is stored", func() bool {
					return f.value("select count(*) from jobs.job where id = 'lost'") == 1
				})

				refs := []broker.Ref{{Queue: "a", ID: "first"}, {Queue: "b", ID: "first"}}
				results, err := f.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel, Refs: refs})
				if err != nil || len(results) != 2 || !errors.Is(results[0].Err, broker.ErrUnavailable) ||
					!errors.Is(results[1].Err, broker.ErrUnavailable) {
					t.Errorf("an operation on two queues that are away: %v and %v, want ErrUnavailable for each job", results, err)
				}
				break
			}
		})
	}
}

// If the answer is lost, jobs may have been stored, of whatever kind, also with PollOnly; the
// outcome of every other call is as open.
func TestEnqueueFailed_ALostAnswerLeavesOpenWhatWasApplied(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{{}, {PollOnly: true}} {
		t.Run(map[bool]string{false: "Prepared", true: "PollOnly"}[config.PollOnly], func(t *testing.T) {
			t.Parallel()
			direct := connect(t, testenv.Postgres(t), 2)
			config := config
			config.Schema = schema(t, direct)
			proxy := startCutter(t, testenv.Postgres(t))
			through := openOn(t, connect(t, proxy.url, 1), config)
			f := &inside{Broker: through.Broker, t: t, schema: config.Schema, db: direct}
			f.worker("w")
			f.accept(f, jobs(3, "a")...)
			held := f.claimed("w", 1)
			for name, call := range f.calls(held) {
				if name == "Claim that waits" {
					continue // this is the claim that does not wait, on a goroutine of its own
				}
				// The first answer may be to a preparation: then nothing was sent that could
				// be applied, and the call says so or goes on.
				_, err := f.Ping(t.Context())
				f.check(err)
				_ = call(t.Context())
				_, err = f.Ping(t.Context())
				f.check(err)
				proxy.arm(0)
				err = call(t.Context())
				if !proxy.cut() {
					t.Fatalf("%s did not ask the store", name)
				}
				if transacts := name == "Operate"; !transacts && (!broker.MayHaveApplied(err) || errors.Is(err, broker.ErrUnavailable)) {
					t.Errorf("%s whose answer was lost: %v, want an error that leaves open what was applied", name, err)
				}
			}
		})
	}
}

// faltering is a port whose calls fail after a number of them.
type faltering struct {
	*ownPort
	left int
}

func (p *faltering) run(ctx context.Context, steps ...step) error {
	if p.left--; p.left < 0 {
		return broker.ErrUnavailable
	}
	return p.ownPort.run(ctx, steps...)
}

// An enqueue asks about a full queue twice: for its depth, then whether the jobs exist
// already. Whichever fails, no job counts as stored.
func TestEnqueueFailed_JobsOfAFullQueueThatCannotBeAskedAreNotAccepted(t *testing.T) {
	t.Parallel()
	f := open(t)
	limit := int64(1)
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: &limit})
	f.check(err)
	f.accept(f, job("first"))
	later := job("later")
	later.Body.GivenID = true
	elsewhere := job("elsewhere")
	elsewhere.Queue = "other"
	for calls := range 2 {
		receipts, err := f.enqueue(t.Context(), &faltering{&ownPort{f.Broker, f.Broker}, calls},
			broker.EnqueueRequest{Jobs: []broker.NewJob{job("second"), later, elsewhere}})
		f.check(err)
		for _, r := range receipts[:2] {
			if !errors.Is(r.Err, broker.ErrUnavailable) || r.State != broker.StateNone {
				t.Errorf("%s, when the call after %d failed: state %v, error %v; want ErrUnavailable", r.ID, calls, r.State, r.Err)
			}
		}
	}
}
