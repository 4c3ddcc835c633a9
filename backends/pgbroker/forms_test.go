package pgbroker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

// Settles of different outcomes use different statements. Each of these requests uses another
// one.
var settleForms = map[string]struct {
	outcomes []broker.Outcome
	change   func(*broker.NewJob) // of all jobs
}{
	"plain": {outcomes: []broker.Outcome{broker.Complete(nil), broker.Complete(nil)}},
	"kept":  {outcomes: []broker.Outcome{broker.Complete(nil), broker.Complete(nil)}, change: keptFor(time.Hour)},
	"live on": {outcomes: []broker.Outcome{broker.Retry(time.Hour, broker.Failure{Message: "no"}),
		broker.Snooze(time.Hour, broker.Failure{})}},
	"mixed":    {outcomes: []broker.Outcome{broker.Complete(nil), broker.Retry(time.Hour, broker.Failure{Message: "no"})}},
	"released": {outcomes: []broker.Outcome{broker.Release(), broker.Release()}},
	"dead":     {outcomes: []broker.Outcome{broker.Die(broker.ReasonRetries, broker.Failure{Message: "no"}), broker.Complete(nil)}},
}

func keptFor(d time.Duration) func(*broker.NewJob) {
	return func(j *broker.NewJob) { j.Body.Retention = d }
}

// items returns the settlements of jobs with outcomes.
func items(jobs []broker.Job, outcomes ...broker.Outcome) (all []broker.Settlement) {
	for i := range outcomes {
		all = append(all, broker.Settlement{Job: &jobs[i], Outcome: outcomes[i]})
	}
	return all
}

// states returns the states of jobs, by ID.
func (f *fixture) states(ids ...string) map[string]broker.State {
	f.t.Helper()
	page, err := f.Find(f.t.Context(), broker.Query{Queue: testQueue, IDs: ids})
	f.ok(err)
	at := make(map[string]broker.State)
	for _, j := range page.Jobs {
		at[j.ID] = j.State
	}
	return at
}

// A request with an older number than the last one is late: it changes nothing, and the
// verdicts of the last one stay, so that it can still be repeated.
func TestSettle_OlderNumberChangesNothing(t *testing.T) {
	t.Parallel()
	for name, form := range settleForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var changes []func(*broker.NewJob)
			if form.change != nil {
				changes = append(changes, form.change)
			}
			f.store(f, series("j", 4, changes...)...)
			held := f.claim(4, 0)
			newer := broker.SettleRequest{Worker: testWorker, Number: 5, Items: items(held[:2], form.outcomes...)}
			older := broker.SettleRequest{Worker: testWorker, Number: 4, Items: items(held[2:], form.outcomes...)}
			first, err := f.Settle(t.Context(), newer)
			f.ok(err)
			verdicts, err := f.Settle(t.Context(), older)
			f.ok(err)
			for _, v := range verdicts {
				if !errors.Is(v.Err, broker.ErrLeaseLost) {
					t.Errorf("job %s under an older number: state %v, %v; want ErrLeaseLost", v.ID, v.State, v.Err)
				}
			}
			if at := f.states(names(held[2:])...); at[held[2].ID] != broker.StateActive || at[held[3].ID] != broker.StateActive {
				t.Errorf("after a settle under an older number its jobs are %v, want both active", at)
			}
			again, err := f.Settle(t.Context(), newer)
			f.ok(err)
			for i := range again {
				if again[i].Err != nil || again[i].State != first[i].State {
					t.Errorf("job %s: the repeat of the newer request is answered %v, %v; want %v as before", again[i].ID, again[i].State, again[i].Err,
						first[i].State)
				}
			}
		})
	}
}

// A job that was asked to cancel ends as cancelled, whatever its outcome, and is charged
// nothing.
func TestSettle_CancelledJobIsNotCharged(t *testing.T) {
	t.Parallel()
	no := broker.Failure{Message: "no"}
	for name, outcomes := range map[string][]broker.Outcome{
		"retry":               {broker.Retry(time.Hour, no)},
		"retry at once":       {broker.Retry(0, no)},
		"crash":               {broker.Crash(time.Hour, no)},
		"snooze":              {broker.Snooze(time.Hour, no)},
		"retry beside an end": {broker.Retry(time.Hour, no), broker.Complete(nil)},
		"crash beside an end": {broker.Crash(time.Hour, no), broker.Complete(nil)},
		"snooze beside one":   {broker.Snooze(time.Hour, no), broker.Complete(nil)},
		"release":             {broker.Release()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.store(f, series("j", 2, keptFor(time.Hour))...)
			held := f.claim(2, 0)
			results, err := f.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel, Refs: []broker.Ref{held[0].Ref()}})
			f.ok(errors.Join(err, results[0].Err))
			verdicts, err := f.Settle(t.Context(), broker.SettleRequest{Worker: testWorker, Number: 1, Items: items(held, outcomes...)})
			f.ok(errors.Join(err, verdicts[0].Err))
			page, err := f.Find(t.Context(), broker.Query{Queue: testQueue, IDs: []string{held[0].ID}})
			f.ok(err)
			if len(page.Jobs) != 1 || page.Jobs[0].State != broker.StateCancelled {
				t.Fatalf("found %+v, want the job, cancelled", page.Jobs)
			}
			if h := page.Jobs[0].Head; h.Deliveries != 1 || h.Failures != 0 || h.Crashes != 0 || h.Snoozes != 0 {
				t.Errorf("a cancelled job counts %d deliveries, %d failures, %d crashes, %d snoozes; want 1 delivery alone",
					h.Deliveries, h.Failures, h.Crashes, h.Snoozes)
			}
		})
	}
}

// Records that are kept for whole days go into the partition of the day on which they expire,
// which is dropped when the day is over; all others do not.
func TestSettle_RecordsGoToTheDayOnWhichTheyExpire(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		count    int64 // that the queue keeps at most
		changes  func(*broker.NewJob)
		outcomes []broker.Outcome
		now      time.Time
		byDay    int64 // of the records
	}{
		"two ends":              {outcomes: []broker.Outcome{broker.Complete(nil), broker.Cancel(broker.Failure{})}, byDay: 2},
		"an end beside a retry": {outcomes: []broker.Outcome{broker.Complete(nil), broker.Retry(0, broker.Failure{Message: "no"})}, byDay: 1},
		"a job's own retention": {outcomes: []broker.Outcome{broker.Complete(nil)}, changes: keptFor(4 * day), byDay: 1},
		"less than a day": {outcomes: []broker.Outcome{broker.Complete(nil), broker.Release()}, changes: keptFor(day - time.Second),
			byDay: 0},
		"less, and it ends alone": {outcomes: []broker.Outcome{broker.Complete(nil)}, changes: keptFor(day - time.Second), byDay: 0},
		"longer than there are":   {outcomes: []broker.Outcome{broker.Complete(nil)}, changes: keptFor(60 * day), byDay: 0},
		"a queue that counts":     {outcomes: []broker.Outcome{broker.Complete(nil)}, count: 100, byDay: 0},
		"counting, beside a job":  {outcomes: []broker.Outcome{broker.Complete(nil), broker.Release()}, count: 100, byDay: 0},
		"virtual time":            {outcomes: []broker.Outcome{broker.Complete(nil)}, now: time.Now(), byDay: 0},
		"virtual, beside a job":   {outcomes: []broker.Outcome{broker.Complete(nil), broker.Release()}, now: time.Now(), byDay: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			keep := func(r broker.Retention) {
				_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, RetainCompleted: &r})
				f.ok(err)
			}
			keep(broker.Retention{Age: 5 * day})
			_, err := f.Prune(t.Context(), broker.PruneRequest{Queues: []string{testQueue}, Max: 1}) // makes the partitions
			f.ok(err)
			keep(broker.Retention{Age: 2 * day, Count: c.count})
			var changes []func(*broker.NewJob)
			if c.changes != nil {
				changes = append(changes, c.changes)
			}
			f.store(f, series("j", len(c.outcomes), changes...)...)
			held := f.claim(len(c.outcomes), 0)
			verdicts, err := f.Settle(t.Context(), broker.SettleRequest{Now: c.now, Worker: testWorker, Number: 1,
				Items: items(held, c.outcomes...)})
			f.ok(err)
			for _, v := range verdicts {
				f.ok(v.Err)
			}
			if n := f.ask("select count(*) from jobs.history where day <> 0"); n != c.byDay {
				t.Errorf("%d records are in partitions of days, want %d", n, c.byDay)
			}
			if n := f.ask("select count(*) from jobs.history where day <> 0 and day <> expires_at / 86400000000"); n != 0 {
				t.Errorf("%d records are in the partition of another day than that on which they expire", n)
			}
		})
	}
}

// An ID given by a caller is refused right after its job has ended, however it ended and
// whether or not it left a record.
func TestEnqueue_GivenIDRightAfterItsEnd(t *testing.T) {
	t.Parallel()
	no := broker.Failure{Message: "no"}
	die := broker.Die(broker.ReasonRetries, no)
	const keep = time.Minute
	for name, c := range map[string]struct {
		keep     time.Duration // records
		count    int64         // of them at most
		cancel   bool          // asked for before the settle
		outcomes []broker.Outcome
		operate  []broker.OperationKind // then
		prune    bool                   // then, when all is over
	}{
		"completed":                      {outcomes: []broker.Outcome{broker.Complete(nil)}},
		"completed beside another":       {outcomes: []broker.Outcome{broker.Complete(nil), broker.Release()}},
		"cancelled by its handler":       {outcomes: []broker.Outcome{broker.Cancel(no)}},
		"cancelled for an operator":      {cancel: true, outcomes: []broker.Outcome{broker.Retry(0, no)}},
		"cancelled beside another's end": {cancel: true, outcomes: []broker.Outcome{broker.Retry(0, no), broker.Complete(nil)}},
		"cancelled while pending":        {operate: []broker.OperationKind{broker.OpCancel}},
		"deleted while pending":          {operate: []broker.OperationKind{broker.OpDelete}},
		"dead":                           {outcomes: []broker.Outcome{die}},
		"dead and deleted":               {outcomes: []broker.Outcome{die}, operate: []broker.OperationKind{broker.OpDelete}},
		"completed, kept":                {keep: keep, outcomes: []broker.Outcome{broker.Complete(nil)}},
		"completed, kept and deleted": {keep: keep, outcomes: []broker.Outcome{broker.Complete(nil)},
			operate: []broker.OperationKind{broker.OpDelete}},
		"completed, kept and over": {keep: keep, outcomes: []broker.Outcome{broker.Complete(nil)}, prune: true},
		"completed, kept and too many": {keep: time.Hour, count: 1, outcomes: []broker.Outcome{broker.Complete(nil), broker.Complete(nil)},
			prune: true},
		"dead and over":                   {keep: keep, outcomes: []broker.Outcome{die}, prune: true},
		"cancelled while pending, pruned": {keep: keep, operate: []broker.OperationKind{broker.OpCancel}, prune: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			now := time.Now()
			_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue,
				RetainCompleted: &broker.Retention{Age: c.keep, Count: c.count}, RetainDead: &broker.Retention{Age: c.keep}})
			f.ok(err)
			job := aJob("given", given)
			f.store(f, job, aJob("other", given))
			operate := func(kind broker.OperationKind) {
				results, err := f.Operate(t.Context(), broker.Operation{Now: now, Kind: kind,
					Refs: []broker.Ref{{Queue: testQueue, ID: "given", Epoch: broker.AnyEpoch}}})
				f.ok(errors.Join(err, results[0].Err))
			}
			if len(c.outcomes) > 0 {
				held := f.claim(2, 0)
				if c.cancel {
					operate(broker.OpCancel)
				}
				verdicts, err := f.Settle(t.Context(), broker.SettleRequest{Now: now, Worker: testWorker, Number: 1, Items: items(held, c.outcomes...)})
				f.ok(errors.Join(err, verdicts[0].Err))
			}
			for _, kind := range c.operate {
				operate(kind)
			}
			if c.prune {
				now = now.Add(2 * keep)
				got, err := f.Prune(t.Context(), broker.PruneRequest{Now: now, Queues: []string{testQueue}, Max: 10})
				f.ok(err)
				if got.Completed+got.Cancelled+got.Dead == 0 {
					t.Fatal("nothing was pruned")
				}
			}
			receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{job}})
			f.ok(err)
			if r := receipts[0]; !errors.Is(r.Err, broker.ErrDuplicate) || r.Holder != "given" {
				t.Errorf("the ID right after its job's end: %v, holder %q; want ErrDuplicate of itself", r.Err, r.Holder)
			}
		})
	}
}

// A settle is durable when it is answered, also if it is sent with a claim: only the claim may
// be lost with the server's memory. A trigger records how transactions that write settles
// commit.
func TestClaim_SettlesThatTravelWithItAreDurable(t *testing.T) {
	t.Parallel()
	for name, form := range settleForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "on" })
			f.exec(`create table jobs.probe (commits text);
				create function jobs.probe() returns trigger language plpgsql as $$
				begin insert into jobs.probe values (current_setting('synchronous_commit')); return null; end $$;
				create trigger probe after insert on jobs.settled for each statement execute function jobs.probe()`)
			var changes []func(*broker.NewJob)
			if form.change != nil {
				changes = append(changes, form.change)
			}
			f.store(f, series("j", 8, changes...)...)
			request := func(n int64, held []broker.Job) broker.SettleRequest {
				return broker.SettleRequest{Worker: testWorker, Number: n, Items: items(held, form.outcomes...)}
			}
			shares := []broker.Share{{Queue: testQueue, Max: 2}}
			held := f.claim(2, 0)
			for n, c := range []broker.ClaimRequest{{Max: 2, Queues: shares},
				{Max: 2, Queues: []broker.Share{{Queue: testQueue, Max: 1}, {Queue: "other", Max: 1}}}, {}} {
				c.Worker, c.Settle = testWorker, request(int64(n+1), held)
				got, err := f.Claim(t.Context(), c)
				if !errors.Is(err, broker.ErrWorkerGone) { // in the other queue
					f.ok(err)
				}
				f.ok(got.SettleErr)
				if held = got.Jobs; len(held) < 2 {
					held = append(held, f.claim(2-len(held), 0)...)
				}
			}
			_, err := f.Settle(t.Context(), request(4, held))
			f.ok(err)
			if n := f.ask("select count(*) from jobs.probe where commits = 'on'"); n != 4 {
				t.Errorf("%d of 4 settles were committed to the disk before they were answered", n)
			}
		})
	}
}
