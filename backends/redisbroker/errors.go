package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// notApplied lists the errors with which the server refuses a command before it has done anything,
// or a script before its first write. OOM, READONLY, MISCONF and NOREPLICAS can also come from a
// command inside a script, but only before the script's first write.
var notApplied = []string{
	"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "READONLY", "OOM",
	"MISCONF", "NOREPLICAS", "BUSY", "NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "ERR max number of clients",
	"ERR Protocol error: unauthenticated", // instead of NOAUTH, if the command is long
}

// clusterDown is a part of the error that ends a script at its first write if a part of the Cluster is down, and the node allows reads.
const clusterDown = "Script attempted to execute a write command while the cluster is down"

// classify wraps a client's error in broker.ErrUnavailable if the call was certainly not applied.
// Other network errors leave open whether it was applied.
func classify(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	if refused(err) {
		return notSent(err)
	}
	if denied(err) {
		return fmt.Errorf("%w: the script may have stopped half-way; give its user the permissions of docs/backends/redis.md, "+
			"and then run jobsctl doctor --fix", err)
	}
	return err
}

// denied reports whether a script was ended by a command that its user may not send. Redis does not undo what the
// script had written before.
func denied(err error) bool {
	if !answered(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "The user executing the script can't") ||
		strings.Contains(text, "NOPERM") && strings.Contains(text, "@user_script") // before version 7
}

func notSent(err error) error {
	if errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

// partly returns the error of a later part of a call, when an earlier part may have taken effect. It
// hides the sentinel, since nothing was applied only of the later part.
func partly(err error) error {
	if !errors.Is(err, broker.ErrUnavailable) && !errors.Is(err, broker.ErrClosed) {
		return err
	}
	cause := errors.New(err.Error())
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			cause = ended
		}
	}
	return fmt.Errorf("a part of the call may have taken effect; then: %w", cause)
}

func refused(err error) bool {
	if errors.Is(err, broker.ErrUnavailable) { // the client's limiter
		return true
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	if denied(err) {
		return false
	}
	if strings.Contains(text, clusterDown) {
		return true
	}
	for _, code := range notApplied {
		// Before version 7, the error of a command inside a script is at the end of
		// the script's own error: "ERR Error running script …: -OOM command …".
		if strings.HasPrefix(text, code) || strings.HasPrefix(text, "ERR Error running script") && strings.Contains(text, ": -"+code+" ") {
			return true
		}
	}
	return false
}

// answered reports whether an error is an answer of the server.
func answered(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
