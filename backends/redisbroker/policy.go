package redisbroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Policy changes rules of the queue or of one of its keys, in one step and one round trip. Setting
// a rule in a queue that does not exist creates the queue; reading does not.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if err := req.Check(b.Limits()); err != nil {
		return broker.Policy{}, err
	}
	changes := req.Changes()
	args := append([]any{req.Key, len(ruleNames)}, ruleNames...)
	for _, c := range changes {
		args = append(args, c.Rule.Name, c.Value)
	}
	s := &step{script: policyScript, queues: []string{req.Queue}, create: len(changes) > 0, now: "0", args: args}
	if err := b.runOne(ctx, s); err != nil || s.code != codeDone {
		return broker.Policy{}, broker.About(err, "policy", req.Queue, "")
	}
	return policyOf(s.reply), nil
}

// ruleNames are the fields of a queue's record that have its policy.
var ruleNames = func() (names []any) {
	for _, rule := range broker.Rules() {
		names = append(names, rule.Name)
	}
	return names
}()

// policyOf reads the values of the rules, in the order of ruleNames.
func policyOf(numbers []any) (p broker.Policy) {
	if len(numbers) < len(ruleNames) {
		return p
	}
	for i, rule := range broker.Rules() {
		rule.Set(&p, number(numbers[i]))
	}
	return p
}
