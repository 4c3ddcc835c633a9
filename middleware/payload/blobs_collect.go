package payload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/labels"
)

// JobFinder finds jobs for CollectBlobs. Every broker.Broker is one.
type JobFinder interface {
	Find(ctx context.Context, q broker.Query) (broker.Page, error)
	Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error)
}

// DefaultBlobGrace is the grace of CollectBlobs if the caller passes zero.
const DefaultBlobGrace = 24 * time.Hour

// CollectedBlobs says what CollectBlobs did.
type CollectedBlobs struct {
	Old     int // blobs older than the grace
	Deleted int // of Old: deleted, since their job no longer exists
	Strange int // of Old: kept, since no broker knows the queue that their key names
}

const (
	collectBatch   = 500             // jobs about which one call asks
	collectLost    = 5000            // jobs for which all queues are searched at once
	collectTimeout = 5 * time.Second // for one call
)

// CollectBlobs deletes the blobs of ClaimCheck that were put longer than grace
// ago and whose job no longer exists: its record was removed, or it was never
// stored. A blob is kept as long as one of the brokers has a record of its job,
// in any queue and any state, such as retry, dead, or completed and retained.
// Call it from one process at a time, once an hour for example; calls at the same
// time are harmless but duplicate the work.
//
// It is safe under these conditions:
//
//   - It gets every broker that has jobs of these blobs, and not a copy of one:
//     also the other store if jobs are relayed or moved there. Blobs of queues
//     that no broker knows are kept, in case it is the wrong one.
//   - grace is longer than the time from putting a blob until its job is
//     stored: some seconds for an Enqueue that is repeated, or the duration of
//     the transaction around it. It is also longer than the clocks of the hosts
//     that put and collect blobs differ. Zero means DefaultBlobGrace.
//   - The store of jobs does not go back in time. A Redis that loses its last
//     second in a failover can bring back a job that had ended and whose blob
//     was collected: it then fails with ErrNoBlob. To exclude that, give jobs a
//     retention longer than what the store can lose (jobs.WithRetention, or the
//     queue's policy): their record protects the blob.
//   - A job keeps the ID that it had at ClaimCheck, and is not deleted to be
//     imported later.
//   - A job is not moved more than once during one call of CollectBlobs, by a move, a
//     relay or an undo: it could always be where CollectBlobs does not look just then.
//
// An error ends the collection; the result counts the blobs deleted before it.
// Call CollectBlobs again to continue. It asks a broker about at most 500 jobs at
// once, first in their queue and then in all queues that have jobs.
func CollectBlobs(ctx context.Context, blobs Blobs, grace time.Duration, brokers ...JobFinder) (CollectedBlobs, error) {
	switch {
	case grace < 0:
		return CollectedBlobs{}, fmt.Errorf("middleware: %w", broker.Invalid("grace", "is %v; use zero or more", grace))
	case len(brokers) == 0:
		err := broker.Invalid("brokers", "is empty; give every broker that has jobs of these blobs")
		return CollectedBlobs{}, fmt.Errorf("middleware: %w", err)
	}
	c := &collector{blobs: blobs, brokers: brokers, keys: make(map[string]owners), lost: make(owners)}
	err := c.collect(ctx, cmp.Or(grace, DefaultBlobGrace))
	if err != nil {
		err = fmt.Errorf("middleware: collecting blobs: %w", err)
	}
	return c.done, err
}

// owners has the keys of blobs by the ID of their job.
type owners map[string][]string

type collector struct {
	blobs   Blobs
	brokers []JobFinder
	known   map[string]bool   // queues that a broker knows; nil before look
	keys    map[string]owners // old blobs that are yet to be checked, by queue
	lost    owners            // old blobs whose jobs are not in their queues
	done    CollectedBlobs
}

func (c *collector) collect(ctx context.Context, grace time.Duration) error {
	for key, err := range c.blobs.List(ctx, grace) {
		if err == nil {
			err = c.add(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(c.keys)) {
		if err := c.check(ctx, queue); err != nil {
			return err
		}
	}
	return c.deleteLost(ctx)
}

func (c *collector) add(ctx context.Context, key string) error {
	c.done.Old++
	queue, id, ok := ownerOf(key)
	if !ok || broker.CheckQueue(queue) != nil || broker.CheckName("id", id) != nil {
		c.done.Strange++
		return nil
	}
	if c.keys[queue] == nil {
		c.keys[queue] = make(owners)
	}
	c.keys[queue][id] = append(c.keys[queue][id], key)
	if len(c.keys[queue]) < collectBatch {
		return nil
	}
	return c.check(ctx, queue)
}

// check looks for the jobs of blobs in their queue.
func (c *collector) check(ctx context.Context, queue string) error {
	keys := c.keys[queue]
	delete(c.keys, queue)
	if err := c.look(ctx); err != nil {
		return err
	}
	if !c.known[queue] {
		for _, of := range keys {
			c.done.Strange += len(of)
		}
		return nil
	}
	for _, jobs := range c.brokers {
		if err := keys.spare(ctx, jobs, queue); err != nil {
			return err
		}
	}
	for id, of := range keys {
		if c.lost[id] = append(c.lost[id], of...); len(c.lost) == collectLost {
			if err := c.deleteLost(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteLost deletes the blobs whose jobs are not in their queues, unless they are in
// another queue.
func (c *collector) deleteLost(ctx context.Context) error {
	// The way back finds a job that was moved meanwhile: from a later place to an earlier one, or to a
	// queue that had no job before.
	for _, back := range []bool{false, true} {
		places, err := c.places(ctx)
		if err != nil {
			return err
		}
		if back {
			slices.Reverse(places)
		}
		for _, p := range places {
			if err := c.lost.spare(ctx, p.jobs, p.queue); err != nil {
				return err
			}
		}
	}
	for id, of := range c.lost {
		for _, key := range of {
			if err := c.blobs.Delete(ctx, key); err != nil {
				return err
			}
			c.done.Deleted++
		}
		delete(c.lost, id)
	}
	return nil
}

// place is a queue of a broker.
type place struct {
	jobs  JobFinder
	queue string
}

// places returns the queues that have jobs.
func (c *collector) places(ctx context.Context) (places []place, err error) {
	for _, jobs := range c.brokers {
		reply, err := describe(ctx, jobs)
		if err != nil {
			return nil, err
		}
		for _, q := range reply.Queues {
			for _, n := range q.Counts {
				if n > 0 {
					places = append(places, place{jobs, q.Name})
					break
				}
			}
		}
	}
	return places, nil
}

// spare removes the jobs that are in a queue.
func (o owners) spare(ctx context.Context, jobs JobFinder, queue string) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(o)), collectBatch) {
		q := broker.Query{Queue: queue, IDs: ids, Suppressed: true, NoPayload: true, Limit: len(ids)}
		for first := true; first || q.Cursor != ""; first = false {
			page, err := find(ctx, jobs, q)
			if err != nil {
				return err
			}
			for i := range page.Jobs {
				delete(o, page.Jobs[i].ID)
			}
			q.Cursor = page.Cursor
		}
	}
	return nil
}

func find(ctx context.Context, jobs JobFinder, q broker.Query) (broker.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	return jobs.Find(ctx, q)
}

// describe describes all queues.
func describe(ctx context.Context, jobs JobFinder) (broker.QueuesReply, error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	return jobs.Queues(ctx, broker.QueuesRequest{})
}

// look sets which queues the brokers know. A key names the queue of its job without labels
// (jobs.WithLabels), which may never have had a job itself.
func (c *collector) look(ctx context.Context) error {
	if c.known != nil {
		return nil
	}
	known := make(map[string]bool)
	for _, jobs := range c.brokers {
		reply, err := describe(ctx, jobs)
		if err != nil {
			return err
		}
		for _, q := range reply.Queues {
			base, _ := labels.Split(q.Name)
			known[q.Name], known[base] = true, true
		}
	}
	c.known = known
	return nil
}
