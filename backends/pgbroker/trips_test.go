package pgbroker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// sends checks how many round trips and statements f takes. A connection and
// a queue that were not used before take more.
func (s *statements) sends(t *testing.T, what string, trips, steps int, f func()) {
	t.Helper()
	s.take()
	f()
	batches, all := s.take()
	var sent []string
	for _, q := range all {
		if strings.Contains(q.SQL, "stopped as") {
			batches-- // it was held back before, and is sent at its own time
			continue
		}
		sent = append(sent, q.SQL)
	}
	if batches != trips || len(sent) != steps {
		t.Errorf("%s takes %d round trips with %d statements, want %d with %d", what, batches, len(sent), trips, steps)
		for _, q := range sent {
			t.Logf("%.120s", q)
		}
	}
}

func TestTrips_AnEnqueueIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.store(f, aJob("first of the queue"))
	sent.sends(t, "a plain job with a fresh ID", 1, 1, func() { f.store(f, aJob("f", fresh)) })
	sent.sends(t, "a batch of them", 1, 1, func() { f.store(f, series("g", 100, fresh)...) })
	keep := func(j *broker.NewJob) { j.Body.Retention = time.Hour }
	sent.sends(t, "a batch with one to be kept", 1, 3, func() { f.store(f, aJob("h", fresh), aJob("i", fresh, keep)) })
	sent.sends(t, "a batch with one that is scheduled", 1, 3, func() {
		f.store(f, aJob("j", fresh), aJob("k", fresh, func(j *broker.NewJob) { j.Delay = time.Hour }))
	})
	sent.sends(t, "a job that may have been sent before", 1, 3, func() { f.store(f, aJob("a")) })
	sent.sends(t, "a batch of such jobs", 1, 3, func() { f.store(f, series("b", 100)...) })
	sent.sends(t, "a job with an ID of its caller", 1, 3, func() { f.store(f, aJob("c", given)) })
	sent.sends(t, "a batch with unique keys", 1, 4, func() {
		f.store(f, aJob("d", withKey("d", broker.UniqueUntilDone)), aJob("e", withKey("e", broker.UniqueUntilDone)))
	})
}

// After a lost answer a caller sends its jobs again. Then exactly those are refused that
// exist, in whatever table.
func TestEnqueue_ARepeatIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	keep := func(j *broker.NewJob) { j.Body.Retention = time.Hour }
	f.store(f, aJob("pending"), aJob("gone"), aJob("kept", keep))
	for _, j := range f.claim(3, 0) {
		switch j.ID {
		case "pending":
			f.settle([]broker.Job{j}, broker.Release())
		default:
			f.settle([]broker.Job{j}, broker.Complete(nil))
		}
	}
	for _, known := range []string{"pending", "kept"} {
		sent.sends(t, "a repeated job, "+known, 1, 3, func() {
			receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("before " + known), aJob(known),
				aJob("after " + known)}})
			f.ok(err)
			for i, r := range receipts {
				if refused := errors.Is(r.Err, broker.ErrDuplicate); refused != (i == 1) || refused && r.Holder != known {
					t.Errorf("receipt of %q beside %q, which exists: %+v", r.ID, known, r)
				}
			}
		})
	}
	if n := f.counts()[broker.StatePending]; n != 5 {
		t.Errorf("%d jobs are pending, want 5", n)
	}
}

// The fresh IDs of plain jobs are not searched for among records. A queue that begins to keep
// records is noticed; an ID that is not fresh harms no other job.
func TestTrips_PlainJobsAreStoredInOneStatementAsLongAsNothingIsKept(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.store(f, aJob("twice"))
	sent.sends(t, "a batch in which one exists", 2, 4, func() {
		receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("a", fresh), aJob("twice", fresh),
			aJob("b", fresh)}})
		f.ok(err)
		for i, r := range receipts {
			if refused := errors.Is(r.Err, broker.ErrDuplicate); refused != (i == 1) {
				t.Errorf("receipt %d: %+v, want the second one alone to be refused", i, r)
			}
		}
	})
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, RetainCompleted: &broker.Retention{Age: time.Hour}})
	f.ok(err)
	sent.sends(t, "the first job after the queue's policy changed", 2, 4, func() { f.store(f, aJob("c", fresh)) })
	sent.sends(t, "the next job", 1, 3, func() { f.store(f, aJob("d", fresh)) })
	if n := f.counts()[broker.StatePending]; n != 5 {
		t.Errorf("%d jobs are pending, want 5", n)
	}
}

// A slow call may be carried out after a repeat of it was stored and its job has died, and
// even while it dies.
func TestTrips_AJobThatDiedIsNotStoredAgainByACallThatTookLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	die := func(jobs []broker.Job) {
		f.settle(jobs, broker.Die(broker.ReasonSkipRetry, broker.Failure{Message: "no"}))
	}
	f.store(f, aJob("late", fresh))
	die(f.claim(1, 0))
	receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("late", fresh)}})
	f.ok(err)
	if !errors.Is(receipts[0].Err, broker.ErrDuplicate) || receipts[0].Holder != "late" {
		t.Errorf("the first call, after its repeat has died: %+v", receipts[0])
	}

	f.ask("with aside as (update jobs.dead set id = 'aside' where id = 'late' returning 1) select count(*) from aside")
	f.store(f, aJob("late", fresh))
	jobs := f.claim(1, 0)
	f.ask("with back as (update jobs.dead set id = 'late' where id = 'aside' returning 1) select count(*) from back")
	die(jobs)
	if n, counted := f.ask("select count(*) from jobs.dead where id = 'late'"), f.counts()[broker.StateDead]; n != 1 || counted != 1 {
		t.Errorf("there are %d records of a job that was stored while it died, and %d are counted, want 1", n, counted)
	}
}

// Every server watches for requests to cancel. That must not make each settle publish events,
// in a transaction of its own.
func TestTrips_SettlesTellOnlyThoseWhoAsked(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	watch := func(kinds ...broker.EventKind) {
		_, err := f.Watch(t.Context(), broker.WatchRequest{Queues: []string{testQueue}, Kinds: kinds})
		f.ok(err)
	}
	watch(broker.EventCancel)
	settle := func(id string) func() {
		f.store(f, aJob(id))
		jobs := f.claim(1, 0)
		return func() { f.settle(jobs, broker.Complete(nil)) }
	}
	sent.sends(t, "a settle in a queue watched for cancellation", 1, 2, settle("a"))
	watch(broker.EventSettled)
	sent.sends(t, "a settle in a queue watched for what is settled", 2, 3, settle("b"))
}

// A queue's policy may change at any time: the next settle keeps records.
func TestSettle_KeepsRecordsOnceThePolicyDoes(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.store(f, series("a", 5)...)
	jobs := f.claim(5, 0)
	complete := func(i int) func() {
		return func() { f.settle(jobs[i:i+1], broker.Complete([]byte("done"))) }
	}
	sent.sends(t, "a settle", 1, 2, complete(0))
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, RetainCompleted: &broker.Retention{Age: time.Hour}})
	f.ok(err)
	sent.sends(t, "the first settle after the queue's policy changed", 1, 2, complete(1))
	sent.sends(t, "the next settle", 1, 2, complete(2))
	if n := f.counts()[broker.StateCompleted]; n != 2 {
		t.Errorf("%d completed jobs are kept, want the 2 that ended after the policy changed", n)
	}
	if n := f.ask("select count(*) from jobs.history where tail is not null"); n != 2 {
		t.Errorf("%d of the kept jobs have their result, want 2", n)
	}
}

// An idle worker learns from the wake-up that there are pending jobs, and looks for nothing
// else.
func TestTrips_AClaimThatIsWokenForAPendingJobAsksForNothingElse(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	other := f.beside(2)
	_, err := f.Watch(t.Context(), broker.WatchRequest{Queues: []string{"another"}, Kinds: []broker.EventKind{broker.EventCancel}})
	f.ok(err) // it listens now
	f.claim(10, 0)
	var sizes []int
	for round := range 200 { // one may be woken by what came before; on a busy machine, many are
		took := make(chan []broker.Job)
		go func() { took <- f.claim(10, time.Minute) }()
		sent.take()
		f.store(other, aJob(fmt.Sprint(round), fresh))
		jobs := <-took
		if _, all := sent.take(); len(all) == 2 {
			return
		} else {
			sizes = append(sizes, len(all))
		}
		f.settle(jobs, broker.Complete(nil))
		f.claim(10, 0)
	}
	t.Errorf("claims that were woken sent %d statements, want one of them to send 2", sizes)
}

// A queue may keep records for some time only. Then enqueues are as fast as before.
func TestTrips_AQueueThatKeepsNoRecordsAnyMoreIsFastAgain(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.store(f, aJob("first of the queue"))
	for _, age := range []time.Duration{time.Hour, 0} {
		f.policy(broker.PolicyRequest{Queue: testQueue, RetainCompleted: &broker.Retention{Age: age}})
		f.store(f, aJob("learns of "+age.String(), fresh))
	}
	sent.sends(t, "a plain job", 1, 3, func() { f.store(f, aJob("given", given)) })
	sent.sends(t, "a plain job with a fresh ID", 1, 1, func() { f.store(f, aJob("a", fresh)) })
}
