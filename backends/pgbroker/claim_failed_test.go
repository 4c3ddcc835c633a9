package pgbroker

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// Rows come before the transaction that leased them has committed. A claim that fails after
// them returns none of the jobs: no worker may hold them.
func TestClaimFailed_AClaimThatFailsBehindItsRowsGivesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		commit string // what a commit that leases does
		end    string // what is done to the session meanwhile
		known  bool   // whether it is known that nothing was applied
	}{
		{"CommitRefused", "raise 'refused'", "", true},
		{"StatementCancelled", "perform pg_sleep(60)", "pg_cancel_backend", true},
		{"SessionTerminated", "perform pg_sleep(60)", "pg_terminate_backend", true},
	} {
		for _, config := range []Config{{}, {PollOnly: true}} {
			t.Run(c.name+map[bool]string{true: "PollOnly"}[config.PollOnly], func(t *testing.T) {
				t.Parallel()
				f := openAs(t, config)
				f.worker("w")
				f.accept(f, jobs(5, "a")...)
				f.exec("create function jobs.at_commit() returns trigger language plpgsql as 'begin " + strings.ReplaceAll(c.commit, "'", "''") +
					"; return null; end'")
				f.exec("create constraint trigger at_commit after update on jobs.job deferrable initially deferred " +
					"for each row execute function jobs.at_commit()")
				if c.end != "" {
					go f.endSleeper(c.end)
				}
				got, err := f.Claim(t.Context(), shareOf("w", 5))
				f.exec("drop trigger at_commit on jobs.job")
				if err == nil || broker.MayHaveApplied(err) == c.known {
					t.Errorf("the claim was answered %v, want an error with MayHaveApplied %t", err, !c.known)
				}
				f.gaveNothing(got)
			})
		}
	}
}

// The same holds for an answer that is cut off anywhere.
func TestClaimFailed_AClaimWhoseAnswerIsCutGivesNothing(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{{}, {PollOnly: true}} {
		t.Run(map[bool]string{false: "Prepared", true: "PollOnly"}[config.PollOnly], func(t *testing.T) {
			t.Parallel()
			direct := connect(t, testenv.Postgres(t), 2)
			config := config
			config.Schema = schema(t, direct)
			proxy := startCutter(t, testenv.Postgres(t))
			through := openOn(t, connect(t, proxy.url, 2), config)
			f := &inside{Broker: through.Broker, t: t, schema: config.Schema, db: direct}
			f.worker("w")
			big := jobs(60, "a")
			for i := range big {
				big[i].Body.Payload = bytes.Repeat([]byte{'x'}, 10_000)
			}
			f.accept(f, big...)
			for _, at := range []int64{0, 200, 100_000, 300_000, 599_000} {
				proxy.arm(at)
				got, err := f.Claim(t.Context(), shareOf("w", len(big)))
				if !proxy.cut() {
					t.Fatalf("the answer of %d jobs had less than %d bytes", len(got.Jobs), at)
				}
				if err == nil || !broker.MayHaveApplied(err) {
					t.Errorf("cut after %d bytes: answered %v, want an error that leaves open what was applied", at, err)
				}
				if len(got.Jobs) > 0 || got.More {
					t.Errorf("cut after %d bytes: the claim gave %d jobs and More %t beside its error, want none", at, len(got.Jobs), got.More)
				}
				testenv.Eventually(t, "the end of the session that was cut", func() bool {
					return f.value(`select count(*) from pg_stat_activity where state <> 'idle' and strpos(query, $1) > 0
						and pid <> pg_backend_pid()`, f.schema) == 0
				})
				f.releaseHeld("w")
			}
		})
	}
}

// A claim that needs more than one round trip keeps what the first one gave.
func TestClaimFailed_AClaimKeepsWhatAnEarlierTransactionGave(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.worker("w")
	f.accept(f, jobs(5, "a")...)
	f.exec("create function jobs.at_commit() returns trigger language plpgsql as " +
		"'begin if new.id > ''a00000001'' then raise ''refused''; end if; return null; end'")
	f.exec("create constraint trigger at_commit after update on jobs.job deferrable initially deferred " +
		"for each row execute function jobs.at_commit()")
	got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 5,
		Queues: []broker.Share{{Queue: "q", Max: 2}, {Queue: "q", Max: 3}}})
	if err == nil {
		t.Fatal("the second transaction of the claim was not refused")
	}
	if len(got.Jobs) != 2 || got.Jobs[0].ID != "a00000000" || got.Jobs[0].Queue != "q" {
		t.Errorf("the claim gave %d jobs beside its error, want the two of its first transaction", len(got.Jobs))
	}
	if held := f.value("select count(*) from jobs.job where state = 3"); held != 2 {
		t.Errorf("%d jobs are leased, want 2", held)
	}
}

func shareOf(worker string, n int) broker.ClaimRequest {
	return broker.ClaimRequest{Worker: worker, Max: n, Queues: []broker.Share{{Queue: "q", Max: n}}}
}

// gaveNothing checks that a claim of five jobs was undone and gave none.
func (f *inside) gaveNothing(got broker.Claimed) {
	f.t.Helper()
	if len(got.Jobs) > 0 || got.More {
		f.t.Errorf("the claim gave %d jobs and More %t beside its error, want none", len(got.Jobs), got.More)
	}
	if held := f.value("select count(*) from jobs.job where state = 3"); held != 0 {
		f.t.Errorf("%d jobs are leased by a claim that was rolled back", held)
	}
	if again := f.claimed("w", 5); len(again) != 5 || again[0].Queue != "q" {
		f.t.Errorf("the next claim gave %d jobs, want all 5", len(again))
	}
}

// releaseHeld gives back what a worker holds.
func (f *inside) releaseHeld(worker string) {
	f.t.Helper()
	page, err := f.Find(f.t.Context(), broker.Query{Queue: "q", Worker: worker, Limit: 1000, NoPayload: true})
	f.check(err)
	if len(page.Jobs) > 0 {
		f.settle(worker, broker.Release(), page.Jobs...)
	}
}

// endSleeper ends a statement, or its session, once it sleeps in its commit.
func (f *inside) endSleeper(how string) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for ended := false; !ended && ctx.Err() == nil; {
		_ = f.db.QueryRow(ctx, "select coalesce(bool_or("+how+
			"(pid)), false) from pg_stat_activity where wait_event = 'PgSleep' and strpos(query, $1) > 0",
			f.schema).Scan(&ended)
	}
}
