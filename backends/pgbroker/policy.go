package pgbroker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
)

// Policy changes the rules that the request sets, in one statement. Setting a rule registers an
// unknown queue; reading does not. If the request sets a rule of a key to zero, the rule is
// removed from the key's policy.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (p broker.Policy, err error) {
	defer about(&err, "policy", req.Queue)
	if err := cmp.Or(b.usable(ctx), req.Check(b.Limits())); err != nil {
		return p, err
	}
	var rules []byte
	layout := 0 // stays 0 if there is no row
	changes := make(map[string]int64)
	for _, c := range req.Changes() {
		changes[c.Rule.Name] = c.Value
	}
	if len(changes) == 0 {
		err := b.run(ctx, b.step("policy", one(&layout, &rules), req.Queue, req.Key))
		if err = cmp.Or(err, checkLayout(layout)); err != nil {
			return broker.Policy{}, err
		}
		return readPolicy(rules)
	}
	text, err := json.Marshal(changes)
	if err != nil {
		return broker.Policy{}, err
	}
	wake := b.waker.broadcast(req.Queue) // the queue may have been resumed
	change := b.step("policy_set", one(&layout, &rules, nil), req.Queue, string(text), b.channel, wake)
	if req.Key != "" {
		change = b.step("policy_key_set", change.read, req.Queue, req.Key, string(text), b.channel, wake)
	}
	err = b.run(ctx, change)
	b.waker.wake(req.Queue, false)
	if err == nil && layout == 0 {
		err = b.run(ctx, b.notNewer(req.Queue))
	}
	if err != nil {
		return broker.Policy{}, err
	}
	return readPolicy(rules)
}

// readPolicy reads the column policy: the values of rules by their names.
func readPolicy(rules []byte) (p broker.Policy, err error) {
	numbers := make(map[string]int64)
	if len(rules) > 0 {
		if err := json.Unmarshal(rules, &numbers); err != nil {
			return p, fmt.Errorf("a queue's policy: %w", errors.Join(err, broker.ErrMalformed))
		}
	}
	for _, rule := range broker.Rules() {
		rule.Set(&p, numbers[rule.Name])
	}
	return p, nil
}
