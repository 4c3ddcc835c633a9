package pgbroker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed81422ce9/jobs/broker"
)

// notSent is the error of a call that did not get as far as the store.
func notSent(err error) error {
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

// SQLSTATEs that mean something here.
const (
	lockTimeout      = "55P03"
	uniqueViolation  = "23505"
	deadlockDetected = "40P01"
	undefinedTable   = "42P01"
	duplicateTable   = "42P07"
	notPermitted     = "42501"

	noTransaction     = "25P01"
	failedTransaction = "25P02"
)

// classify turns an error of the driver into ErrUnavailable where it is certain
// that nothing was applied. A server that reports an error has rolled back: the
// transaction of a pipeline commits at its end. What was lost on the way after
// a statement was sent stays as it is: nobody knows.
func classify(err error) error {
	if err == nil || errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	if code := sqlState(err); code != "" && !inDoubt(code) {
		return notSent(err)
	}
	// Of a connection that is closed pgx says that nothing was sent, also when it
	// was lost while the answer was read. runOn sees to those closed before.
	if errors.Is(err, pgconn.ErrConnClosed) {
		return err
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || pgconn.SafeToRetry(err) {
		return notSent(err)
	}
	return err
}

// inDoubt reports whether a SQLSTATE leaves the end of a transaction open:
// that of a PgBouncer that lost its server, for one.
func inDoubt(code string) bool {
	switch code {
	case "08001", "08004": // not connected in the first place
		return false
	}
	return strings.HasPrefix(code, "08") || code == "40003"
}

// sqlState is the server's error code, of pgx or of another driver, or "".
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}
