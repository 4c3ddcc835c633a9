package pgbroker_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// Two claims of one server take turns at few keys. One that finds all keys locked would only come
// again, so the next ones wait for the keys.
func TestFlow_ClaimsWaitForKeysOnceOneFoundAllOfThemLocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("a0", ofKey("a"), fresh), aJob("a1", ofKey("a"), fresh))
	f.wants("the key is in the ring", f.claim(1, 0), "a0")
	other := f.begin(pgx.TxOptions{})
	_, err := other.Exec(t.Context(), f.in("select from jobs.key for no key update"))
	f.ok(err)
	f.wants("another has locked it", f.claim(1, 0))
	got := make(chan []broker.Job)
	go func() { got <- f.claim(1, 0) }()
	f.awaitLockWait()
	f.ok(other.Rollback(t.Context()))
	f.wants("the other has ended", <-got, "a1")
}

// Where no key is at its limit, the end of a lease makes no claim look at its key.
func TestFlow_OnlyEndsThatOpenALimitCallTheirKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(2))})
	f.store(f, series("a", 4, ofKey("a"))...)
	first := f.claim(1, 0)
	f.settle(first, broker.Complete(nil))
	if n := f.ask("select count(*) from jobs.call"); n != 0 {
		t.Errorf("%d calls of a key below its limit, want none", n)
	}
	two := f.claim(2, 0)
	f.wants("the key is at its limit", f.claim(2, 0))
	f.settle(two[:1], broker.Complete(nil))
	if n := f.ask("select count(*) from jobs.call"); n != 1 {
		t.Errorf("%d calls of a key at its limit, want 1", n)
	}
	if got := f.claim(2, 0); len(got) != 1 {
		t.Errorf("claimed %v after one of two ended, want one job", names(got))
	}
}

// A limit that comes later counts jobs that nothing marked when they were leased. If one of
// them is just ending, nobody will mark it: the claim calls the key itself.
func TestFlow_ALimitThatComesLaterIsOpenedByJobsLeasedBefore(t *testing.T) {
	t.Parallel()
	for name, ending := range map[string]bool{"active": false, "just ending": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.store(f, aJob("a0", ofKey("a"), fresh), aJob("a1", ofKey("a"), fresh))
			before := f.claim(1, 0)
			f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1))})
			end := f.begin(pgx.TxOptions{})
			if ending {
				_, err := end.Exec(t.Context(), f.in("select from jobs.job where state = 3 for update"))
				f.ok(err)
			}
			f.wants("the key is at its limit", f.claim(1, 0))
			f.ok(end.Rollback(t.Context()))
			f.settle(before, broker.Complete(nil))
			f.wants("the job that was leased before has ended", f.claim(1, 0), "a1")
		})
	}
}

// Programs may set their policy each time they start: that costs nothing for each key that is kept back.
func TestFlow_SettingWhatIsSetHasNoKeyLookedAt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	daily := broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: 24 * time.Hour}}
	f.policy(daily)
	for _, same := range []broker.PolicyRequest{daily, {Paused: new(true)}, {Paused: new(false)}} {
		before := f.ask("select changed from jobs.queue")
		f.policy(same)
		if after := f.ask("select changed from jobs.queue"); after != before {
			t.Errorf("%+v has claims look at all keys again", same)
		}
	}
	before := f.ask("select changed from jobs.queue")
	f.policy(broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: time.Hour}})
	if f.ask("select changed from jobs.queue") == before {
		t.Error("another rate does not have claims look at keys again")
	}
}

// A key that its rate keeps back is not looked at for each of its new jobs.
func TestFlow_JobsOfAKeyThatItsRateKeepsBackDoNotHaveItLookedAt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.policy(broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: 24 * time.Hour}})
	f.store(f, series("a", 2, ofKey("a"))...)
	f.wants("its rate allows one", f.claim(5, 0), "a0000000")
	const version = "select xmin::text::bigint from jobs.key"
	before := f.ask(version)
	f.store(f, aJob("later", ofKey("a")))
	f.wants("its rate keeps it back", f.claim(5, 0))
	if n := f.ask("select count(*) from jobs.call"); n != 0 {
		t.Errorf("%d calls of the key are left, want none", n)
	}
	if f.ask(version) != before {
		t.Error("the claim has looked at the key and written it again")
	}
	f.policy(broker.PolicyRequest{Key: "a", Rate: &broker.Rate{Jobs: 1000, Per: time.Second}})
	f.wants("its own rate allows it", f.claim(5, 0), "a0000001")
}
