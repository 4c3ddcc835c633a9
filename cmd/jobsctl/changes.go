package main

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/seed81422ce9/jobs/broker"
)

// changes notes whether the command has changed anything in its stores, or may have: if a store fails then, the exit
// code must not say that nothing was changed.
type changes struct{ made atomic.Bool }

// in returns b, and notes what is changed through it.
func (c *changes) in(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
		err := next(ctx)
		if changed(call, err) {
			c.made.Store(true)
		}
		return err
	})
}

// changed reports whether a call that has ended with err changed something, or may have.
func changed(call *broker.Call, err error) bool {
	switch r := call.Request.(type) {
	case *broker.Query, *broker.QueuesRequest, *broker.WatchRequest, *struct{}: // the last is of Ping
		return false
	case *broker.PolicyRequest:
		if len(r.Changes()) == 0 {
			return false
		}
	case *broker.ExamineRequest:
		if !r.Fix {
			return false
		}
	case *broker.MarkRequest:
		if r.Action != broker.MarkSet { // others are locks
			return false
		}
	}
	if err != nil {
		return broker.MayHaveApplied(err)
	}
	switch got := call.Reply.(type) {
	case *[]broker.OperationResult:
		return slices.ContainsFunc(*got, func(r broker.OperationResult) bool { return applied(r.Err) })
	case *[]broker.Receipt:
		return slices.ContainsFunc(*got, func(r broker.Receipt) bool { return applied(r.Err) })
	case *broker.Examined:
		return slices.ContainsFunc(got.Findings, func(f broker.Finding) bool { return f.Fixed })
	}
	return true
}

func applied(err error) bool { return err == nil || broker.MayHaveApplied(err) }
