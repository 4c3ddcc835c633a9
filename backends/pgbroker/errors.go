package pgbroker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed81422ce9/jobs/broker"
)

// about says in the error that a method returns what it is about.
func about(err *error, verb, queue string) { *err = broker.About(*err, verb, queue, "") }

// notSent returns the error of a call that did not reach the store.
func notSent(err error) error {
	if sqlState(err) == notSerializable && !strings.Contains(err.Error(), "recovery") { // a replica also reports its conflicts so
		err = fmt.Errorf("%w: jobs need READ COMMITTED; see default_transaction_isolation of the role and the database", err)
	}
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

// SQLSTATEs that this package handles.
const (
	lockTimeout      = "55P03"
	uniqueViolation  = "23505"
	deadlockDetected = "40P01"
	notSerializable  = "40001"
	undefinedTable   = "42P01"
	duplicateTable   = "42P07"
	notPermitted     = "42501"
	queryCanceled    = "57014"

	noTransaction     = "25P01"
	failedTransaction = "25P02"
)

// classify turns an error of the driver into ErrUnavailable if it is certain that nothing
// was applied. If the server reports an error, it has rolled back, since a pipeline commits
// only at its end. If the connection was lost after a statement was sent, it is not known
// whether it was applied, and the error stays as it is.
func classify(err error) error {
	if err == nil || errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	if code := sqlState(err); code != "" && !inDoubt(code) {
		return notSent(err)
	}
	// For a closed connection, pgx reports that nothing was sent, even if the connection was
	// lost while the answer was read. runOn refuses connections that were closed before.
	if errors.Is(err, pgconn.ErrConnClosed) {
		return err
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || pgconn.SafeToRetry(err) {
		return notSent(err)
	}
	return err
}

// inDoubt reports whether a SQLSTATE leaves it open whether a transaction was committed. For
// example, a PgBouncer reports one if it lost its server.
func inDoubt(code string) bool {
	switch code {
	case "08001", "08004": // not connected in the first place
		return false
	}
	return strings.HasPrefix(code, "08") || code == "40003"
}

// sqlState returns the server's error code, from pgx or another driver, or "".
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// knownLayout is the newest layout of a queue's rows that this program serves.
const knownLayout = 1

// notNewer returns the step that refuses queues whose rows a newer release wrote.
func (b *Broker) notNewer(queues ...string) step {
	return b.step("queue_layout", func(r rows) error {
		layout := 0
		if err := one(&layout)(r); err != nil {
			return err
		}
		return checkLayout(layout)
	}, queues)
}

// checkLayout refuses a queue whose rows a newer release wrote.
func checkLayout(layout int) error {
	if layout <= knownLayout {
		return nil
	}
	return fmt.Errorf("%w: queue layout %d, this program serves up to %d; update the program", broker.ErrNewerForm, layout, knownLayout)
}
