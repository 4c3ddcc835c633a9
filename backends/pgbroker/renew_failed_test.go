package pgbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A renewal whose commit is refused is sent once more, on another connection. The rows of the
// first attempt say nothing about the second.
func TestRenewFailed_ARenewalThatIsSentOnceMoreCountsItsOwnRows(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.worker("w")
	f.exec("create sequence jobs.attempt")
	f.exec("create function jobs.at_commit() returns trigger language plpgsql as " +
		"'begin if nextval(''jobs.attempt'') = 1 then raise ''refused''; end if; return null; end'")
	f.exec("create constraint trigger at_commit after update on jobs.worker deferrable initially deferred " +
		"for each row execute function jobs.at_commit()")
	got, err := f.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q", "unknown"}, Lease: time.Minute})
	f.check(err)
	if attempts := f.value("select last_value from jobs.attempt"); attempts != 2 {
		t.Fatalf("the renewal was sent %d times, want 2", attempts)
	}
	if !got.Lost {
		t.Error("a worker that is registered in one of two queues was told that it is alive in both")
	}
}
