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

// unavailable are the SQLSTATEs, or classes of them, after which the server
// has certainly rolled back and which say nothing about the request. The
// transaction of a pipeline commits at its end, so a server that reports an
// error has not committed.
var unavailable = []string{
	"08001", "08004", // could not connect, connection rejected
	"25006",          // read-only: a standby, or a primary being demoted
	"40001", "40P01", // serialization failure, deadlock
	"53",                      // out of memory, disk, connections
	"55P03",                   // lock timeout
	"57014",                   // cancelled, by a statement_timeout for example
	"57P01", "57P02", "57P03", // shutting down, crashed, starting up
}

// SQLSTATEs that mean something to a caller here.
const (
	lockTimeout     = "55P03"
	uniqueViolation = "23505"
	undefinedTable  = "42P01"
)

// classify turns an error of the driver into one of the contract's where it is
// certain that nothing was applied. What was lost on the way after a statement
// was sent stays as it is: nobody knows.
func classify(err error) error {
	if err == nil || errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	if code := sqlState(err); code != "" {
		for _, u := range unavailable {
			if strings.HasPrefix(code, u) {
				return notSent(err)
			}
		}
		return err
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || pgconn.SafeToRetry(err) {
		return notSent(err)
	}
	return err
}

// sqlState is the server's error code, of pgx or of another driver, or "".
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}
