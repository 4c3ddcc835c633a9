package pgbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
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
