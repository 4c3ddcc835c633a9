package redisbroker

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Policy changes what the request sets, in one step and one round trip. Setting
// something in a queue that does not exist makes it exist; reading does not.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if err := req.Check(); err != nil {
		return broker.Policy{}, err
	}
	args := policyArgs(&req)
	s := &step{script: policyScript, queues: []string{req.Queue}, create: len(args) > 0, now: "0", args: args}
	if err := b.runOne(ctx, s); err != nil || s.code != codeDone {
		return broker.Policy{}, broker.About(err, "policy", req.Queue, "")
	}
	return policyOf(s.reply), nil
}

// policyArgs are the fields to change and their values, as policy.lua stores
// them: numbers, durations in microseconds.
func policyArgs(req *broker.PolicyRequest) []any {
	var args []any
	if req.Paused != nil {
		paused := 0
		if *req.Paused {
			paused = 1
		}
		args = append(args, "paused", paused)
	}
	if req.MaxDepth != nil {
		args = append(args, "depth", *req.MaxDepth)
	}
	if r := req.RetainCompleted; r != nil {
		args = append(args, "retain", broker.DurationMicros(r.Age), "count", r.Count)
	}
	if r := req.RetainDead; r != nil {
		args = append(args, "deadage", broker.DurationMicros(r.Age), "deadcount", r.Count)
	}
	if req.DuplicateSpan != nil {
		args = append(args, "span", broker.DurationMicros(*req.DuplicateSpan))
	}
	if req.PriorityRound != nil {
		args = append(args, "round", *req.PriorityRound)
	}
	return args
}

const policyFields = 8

// policyOf reads the fields in the order in which policy.lua gives them.
func policyOf(fields []any) broker.Policy {
	if len(fields) < policyFields {
		return broker.Policy{}
	}
	duration := func(i int) time.Duration { return time.Duration(number(fields[i])) * time.Microsecond }
	return broker.Policy{
		Paused:          number(fields[0]) == 1,
		MaxDepth:        number(fields[1]),
		RetainCompleted: broker.Retention{Age: duration(2), Count: number(fields[3])},
		RetainDead:      broker.Retention{Age: duration(4), Count: number(fields[5])},
		DuplicateSpan:   duration(6),
		PriorityRound:   number(fields[7]),
	}
}
