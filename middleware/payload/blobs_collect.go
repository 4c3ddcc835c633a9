package payload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
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
	Strange int // of Old: kept, since the broker does not know the queue that their key names
}

const (
	collectBatch   = 500
	collectTimeout = 5 * time.Second // for one call
)

// CollectBlobs deletes the blobs of ClaimCheck that were put longer than grace
// ago and whose job no longer exists: its record was removed, or it was never
// stored. A blob is kept as long as there is a record of its job in any state,
// such as retry, dead, or completed and retained. Call it from one process at a
// time, once an hour for example; calls at the same time are harmless but
// duplicate the work.
//
// It is safe under these conditions:
//
//   - jobs is the broker that has the jobs, not a copy of it. Two brokers
//     never share a blob store: each would take the other's blobs for
//     orphans. Blobs of queues that the broker does not know are kept, in case
//     it is the wrong one.
//   - grace is longer than the time from putting a blob until its job is
//     stored: some seconds for an Enqueue that is repeated, or the duration of
//     the transaction around it. Zero means DefaultBlobGrace.
//   - The store of jobs does not go back in time. A Redis that loses its last
//     second in a failover can bring back a job that had ended and whose blob
//     was collected: it then fails with ErrNoBlob. To exclude that, give jobs a
//     retention longer than what the store can lose (jobs.WithRetention, or the
//     queue's policy): their record protects the blob.
//   - A job keeps the queue and the ID that it had at ClaimCheck.
//
// An error ends the collection; the result counts the blobs deleted before it.
// Call CollectBlobs again to continue. It asks the broker about at most 500 jobs
// at once.
func CollectBlobs(ctx context.Context, blobs Blobs, jobs JobFinder, grace time.Duration) (CollectedBlobs, error) {
	if grace < 0 {
		return CollectedBlobs{}, fmt.Errorf("middleware: %w", broker.Invalid("grace", "is negative"))
	}
	c := &collector{blobs: blobs, jobs: jobs, known: make(map[string]bool), keys: make(map[string]map[string][]string)}
	for key, err := range blobs.List(ctx, cmp.Or(grace, DefaultBlobGrace)) {
		if err == nil {
			err = c.add(ctx, key)
		}
		if err != nil {
			return c.done, fmt.Errorf("middleware: collecting blobs: %w", err)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(c.keys)) {
		if err := c.flush(ctx, queue); err != nil {
			return c.done, fmt.Errorf("middleware: collecting blobs: %w", err)
		}
	}
	return c.done, nil
}

type collector struct {
	blobs Blobs
	jobs  JobFinder
	known map[string]bool                // whether the broker knows a queue
	keys  map[string]map[string][]string // old blobs that are yet to be checked, by queue and ID
	done  CollectedBlobs
}

func (c *collector) add(ctx context.Context, key string) error {
	c.done.Old++
	queue, id, ok := ownerOf(key)
	if !ok || broker.CheckQueue(queue) != nil || broker.CheckName("id", id) != nil {
		c.done.Strange++
		return nil
	}
	if c.keys[queue] == nil {
		c.keys[queue] = make(map[string][]string)
	}
	c.keys[queue][id] = append(c.keys[queue][id], key)
	if len(c.keys[queue]) < collectBatch {
		return nil
	}
	return c.flush(ctx, queue)
}

// flush deletes the orphans among the blobs of a queue.
func (c *collector) flush(ctx context.Context, queue string) error {
	keys := c.keys[queue]
	delete(c.keys, queue)
	known, err := c.knows(ctx, queue)
	if err != nil {
		return err
	}
	if !known {
		for _, of := range keys {
			c.done.Strange += len(of)
		}
		return nil
	}
	q := broker.Query{Queue: queue, IDs: slices.Sorted(maps.Keys(keys)), Suppressed: true, NoPayload: true, Limit: len(keys)}
	for first := true; first || q.Cursor != ""; first = false {
		page, err := c.find(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			delete(keys, page.Jobs[i].ID)
		}
		q.Cursor = page.Cursor
	}
	for _, of := range keys {
		for _, key := range of {
			if err := c.blobs.Delete(ctx, key); err != nil {
				return err
			}
			c.done.Deleted++
		}
	}
	return nil
}

func (c *collector) find(ctx context.Context, q broker.Query) (broker.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	return c.jobs.Find(ctx, q)
}

func (c *collector) knows(ctx context.Context, queue string) (bool, error) {
	if known, asked := c.known[queue]; asked {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	reply, err := c.jobs.Queues(ctx, broker.QueuesRequest{Names: []string{queue}})
	if err != nil {
		return false, err
	}
	c.known[queue] = len(reply.Queues) > 0
	return c.known[queue], nil
}
