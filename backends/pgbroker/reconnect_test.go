package pgbroker

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestBroker_ReconnectGivesCallsNewConnections(t *testing.T) {
	t.Parallel()
	f := open(t)
	register := func() {
		t.Helper()
		_, err := f.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Minute, Register: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	register()
	pools := f.Broker.pool.Stat().NewConnsCount() + f.Broker.pulse.pool().Stat().NewConnsCount()
	register()
	if n := f.Broker.pool.Stat().NewConnsCount() + f.Broker.pulse.pool().Stat().NewConnsCount(); n != pools {
		t.Fatalf("a second renewal opened %d connections", n-pools)
	}
	f.Broker.Reconnect()
	if n := f.Broker.pool.Stat().IdleConns(); n != 0 {
		t.Errorf("the pool keeps %d connections from before", n)
	}
	register()
	if n := f.Broker.pulse.pool().Stat().NewConnsCount() + f.Broker.pool.Stat().NewConnsCount(); n <= pools {
		t.Error("the heartbeat goes on with connections from before")
	}
}

// Without bounds, one connection that silently died would cost a worker its leases.
func TestBroker_TheConnectionOfHeartbeatsIsReplacedSoonWhenItIsDead(t *testing.T) {
	t.Parallel()
	config := open(t).Broker.pulse.pool().Config()
	if config.PingTimeout == 0 || config.PingTimeout >= 5*time.Second || config.BeforeClose == nil {
		t.Errorf("its pool has the ping timeout %v, want less than the time of a renewal, and a bound for closing", config.PingTimeout)
	}
}

// A process that is stopped, or whose host vanishes, between two statements must not keep its locks for long.
func TestBroker_ASilentTransactionIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	f := open(t)
	show := step{sql: "select current_setting('idle_in_transaction_session_timeout')"}
	var inside, after string
	err := f.Broker.transact(t.Context(), func(s session) error {
		show.read = one(&inside)
		return s.run(t.Context(), show)
	})
	if err != nil {
		t.Fatal(err)
	}
	show.read = one(&after)
	if err := f.Broker.run(t.Context(), show); err != nil {
		t.Fatal(err)
	}
	if inside != "5s" || after == inside {
		t.Errorf("the limit is %q in a transaction and %q after it, want 5s and none", inside, after)
	}
}

// An idle_session_timeout of the role is for clients that forgot a connection. A listener is quiet for a reason.
func TestBroker_TheServerDoesNotEndAQuietListener(t *testing.T) {
	t.Parallel()
	direct := connect(t, testenv.Postgres(t), 1)
	url := testenv.WithParam(t, testenv.Postgres(t), "idle_session_timeout", "100ms")
	f := openOn(t, connectAs(t, url, 4, testenv.Name(t)), Config{Schema: schema(t, direct)})
	events, err := f.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}, Kinds: []broker.EventKind{broker.EventCancel}})
	if err != nil {
		t.Fatal(err)
	}
	forgotten, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = forgotten.WaitForNotification(t.Context()) // until the server ends it
	n := 0
	err = direct.QueryRow(t.Context(), "select count(*) from pg_stat_activity where query like '%listen%' || $1 || '%pg_advisory_lock%'",
		f.channel).Scan(&n)
	if err != nil || n != 1 || len(events) > 0 {
		t.Errorf("connections that listen when the server has ended one that was quiet for as long\ngot  %d, %d events, %v\nwant 1, none",
			n, len(events), err)
	}
}
