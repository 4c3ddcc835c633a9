package inspect

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// KeyInfo describes a key of a queue; see broker.KeyInfo.
type KeyInfo = broker.KeyInfo

// Keys lists, by name, the keys of a queue that have their own policy or jobs that have
// not ended. An error ends the listing.
func (i *Inspector) Keys(ctx context.Context, queue string) iter.Seq2[KeyInfo, error] {
	return func(yield func(KeyInfo, error) bool) {
		req := broker.KeysRequest{Queue: queue, Limit: 1000}
		for first := true; first || req.Cursor != ""; first = false {
			reply, err := call(ctx, i, broker.Broker.Keys, req)
			if err != nil {
				yield(KeyInfo{}, err)
				return
			}
			for _, k := range reply.Keys {
				if !yield(k, nil) {
					return
				}
			}
			req.Cursor = reply.Cursor
		}
	}
}

// Key describes one key of a queue, even one without jobs and without a policy.
func (i *Inspector) Key(ctx context.Context, queue, key string) (KeyInfo, error) {
	reply, err := call(ctx, i, broker.Broker.Keys, broker.KeysRequest{Queue: queue, Names: []string{key}})
	if err == nil && len(reply.Keys) == 0 {
		err = broker.About(broker.ErrNotFound, "keys", queue, "")
	}
	if err != nil {
		return KeyInfo{}, err
	}
	return reply.Keys[0], nil
}

// maxTop is how many keys TopKeys examines: some ten pages, less than a second.
const maxTop = 10_000

// TopKeys returns the n keys of a queue with the most jobs, including active ones, the
// largest first. It examines the first 10,000 keys by name; all reports whether the
// queue has no more.
func (i *Inspector) TopKeys(ctx context.Context, queue string, n int) (keys []KeyInfo, all bool, err error) {
	all = true
	seen := 0
	for k, err := range i.Keys(ctx, queue) {
		if err != nil {
			return nil, false, err
		}
		if seen++; seen > maxTop {
			all = false
			break
		}
		at, _ := slices.BinarySearchFunc(keys, k, func(a, b KeyInfo) int {
			return cmp.Or(cmp.Compare(b.Depth+b.Active, a.Depth+a.Active), cmp.Compare(a.Key, b.Key))
		})
		if at < n {
			keys = slices.Insert(keys, at, k)
			keys = keys[:min(n, len(keys))]
		}
	}
	return keys, all, nil
}

// PauseKey stops claims of jobs of one key of a queue at once. Running jobs continue,
// and producers can still enqueue. Pausing a paused key does nothing.
func (i *Inspector) PauseKey(ctx context.Context, queue, key string) error {
	return i.pauseKey(ctx, queue, key, true)
}

// ResumeKey ends the pause of a key.
func (i *Inspector) ResumeKey(ctx context.Context, queue, key string) error {
	return i.pauseKey(ctx, queue, key, false)
}

func (i *Inspector) pauseKey(ctx context.Context, queue, key string, paused bool) error {
	if err := broker.CheckName("key", key); err != nil { // an empty key would mean the queue
		return broker.About(err, "policy", queue, "")
	}
	_, err := i.SetPolicy(ctx, PolicyRequest{Queue: queue, Key: key, Paused: &paused})
	return err
}
