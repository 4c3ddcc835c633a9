package pgbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
)

// Policy changes the rules that the request sets, in one statement. Setting a rule registers an
// unknown queue; reading does not. If the request sets a rule of a key to zero, the rule is
// removed from the key's policy.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if err := firstOf(b.usable(ctx), req.Check(b.Limits())); err != nil {
		return broker.Policy{}, broker.About(err, "policy", "", "")
	}
	p, err := b.policy(ctx, &req)
	return p, broker.About(err, "policy", req.Queue, "")
}

func (b *Broker) policy(ctx context.Context, req *broker.PolicyRequest) (broker.Policy, error) {
	var rules []byte
	layout, found := 0, false
	read := func(r rows, more ...any) error {
		if !r.Next() {
			return nil
		}
		found = true
		return r.Scan(append([]any{&layout, &rules}, more...)...)
	}
	changes := make(map[string]int64)
	for _, c := range req.Changes() {
		changes[c.Rule.Name] = c.Value
	}
	if len(changes) == 0 {
		look := b.step("policy", func(r rows) error { return read(r) }, req.Queue)
		if req.Key != "" {
			look = b.step("policy_key", look.read, req.Queue, req.Key)
		}
		if err := b.call(ctx, look); err != nil {
			return broker.Policy{}, err
		}
		if layout > knownLayout {
			return broker.Policy{}, newerLayout(layout)
		}
		return readPolicy(rules)
	}
	text, err := json.Marshal(changes)
	if err != nil {
		return broker.Policy{}, err
	}
	wake := b.waker.broadcast(req.Queue) // the queue may have been resumed
	var ignored any
	change := b.step("policy_set", func(r rows) error { return read(r, &ignored) }, req.Queue, string(text), b.channel, wake)
	if req.Key != "" {
		change = b.step("policy_key_set", change.read, req.Queue, req.Key, string(text), b.channel, wake)
	}
	err = b.call(ctx, change)
	b.waker.wake(req.Queue, false)
	if err == nil && !found {
		if layout, err = b.layout(ctx, req.Queue); err == nil {
			err = newerLayout(layout)
		}
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
