package observe

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed81422ce9/jobs/broker"
)

// commandNames are the calls to a store, as broker.Call names them.
var commandNames = []string{"Enqueue", "Claim", "Renew", "Retire", "Settle", "Reclaim", "Prune", "Mark", "Find", "Queues", "Operate",
	"Policy", "Keys", "Watch", "Examine", "Ping"}

// Kinds of failure of a call.
const (
	failedUnavailable = iota
	failedUnknown
	failedRefused
	failureCount
)

var failureNames = [failureCount]string{"unavailable", "unknown", "refused"}

// command holds the options for measuring the calls of one method.
type command struct {
	took   []metric.RecordOption
	failed [failureCount][]metric.AddOption
}

func newCommands() map[string]*command {
	all := make(map[string]*command, len(commandNames)+1)
	for _, method := range append([]string{other}, commandNames...) {
		name := strings.ToLower(method)
		c := &command{took: recorded(labelCommand, name)}
		for i, failure := range failureNames {
			c.failed[i] = added(labelCommand, name, labelError, failure)
		}
		all[method] = c
	}
	return all
}

// command returns the options for a method, or those of "other" for a method that is
// not in commandNames: a metric must never break the call that it measures.
func (m *Metrics) command(method string) *command {
	if c := m.commands[method]; c != nil {
		return c
	}
	return m.commands[other]
}

// measure measures a call to the store.
func (m *Metrics) measure(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
	began := time.Now()
	err := next(ctx)
	if req, ok := c.Request.(*broker.ClaimRequest); !ok || req.Wait == 0 {
		m.instruments.command.Record(ctx, time.Since(began).Seconds(), m.command(c.Method).took...)
	}
	m.failed(ctx, c.Method, ofParts(c.Reply, err))
	if claimed, ok := c.Reply.(*broker.Claimed); ok {
		m.failed(ctx, "Settle", ofParts(&claimed.Verdicts, claimed.SettleErr))
	}
	return err
}

// failed counts a failure, unless the caller cancelled the call.
func (m *Metrics) failed(ctx context.Context, method string, err error) {
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	kind := failedRefused
	switch {
	case broker.MayHaveApplied(err):
		kind = failedUnknown
	case errors.Is(err, broker.ErrUnavailable):
		kind = failedUnavailable
	}
	m.instruments.storeErrors.Add(ctx, 1, m.command(method).failed[kind]...)
}

// ofParts returns err or, if that is nil, the first error in the reply that is
// about the store rather than about one job: a call counts once, however many of
// its jobs failed.
func ofParts(reply any, err error) error {
	if err != nil {
		return err
	}
	switch r := reply.(type) {
	case *[]broker.Receipt:
		for i := range *r {
			if e := (*r)[i].Err; broker.StoreFailed(e) {
				return e
			}
		}
	case *[]broker.Verdict:
		for i := range *r {
			if e := (*r)[i].Err; broker.StoreFailed(e) {
				return e
			}
		}
	}
	return nil
}
