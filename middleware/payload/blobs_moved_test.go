package payload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// putJob stores a job that waits.
func putJob(t *testing.T, b broker.Broker, queue, id string) {
	t.Helper()
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{
		{Queue: queue, ID: id, Delay: time.Hour, Body: broker.Body{Type: "report", Priority: broker.PriorityNormal}}}})
	if err != nil || receipts[0].Err != nil {
		t.Fatal(err, receipts)
	}
}

func TestBlobsCollect_BlobsOfJobsElsewhereStay(t *testing.T) {
	t.Parallel()
	here, there := withJobs(t, "stays"), withJobs(t, "relayed")
	putJob(t, here, "slow", "moved")
	putJob(t, there, "slow", "far")
	blobs := &agedBlobs{ages: make(map[string]time.Duration)}
	for _, id := range []string{"stays", "relayed", "moved", "far", "gone"} {
		blobs.ages[blobKey("q", id, "x")] = time.Hour
	}
	got, err := CollectBlobs(t.Context(), blobs, time.Hour, here, there)
	if want := (CollectedBlobs{Old: 5, Deleted: 1}); err != nil || got != want {
		t.Errorf("collected %+v, error %v; want %+v", got, err, want)
	}
	if left, want := blobs.left(), []string{"q/far/x", "q/moved/x", "q/relayed/x", "q/stays/x"}; !slices.Equal(left, want) {
		t.Errorf("what is left is %q, want %q", left, want)
	}
	if _, err := CollectBlobs(t.Context(), blobs, time.Hour); !errors.Is(err, broker.ErrInvalid) || len(blobs.ages) != 4 {
		t.Errorf("without a broker: %v, %d blobs are left; want ErrInvalid and all", err, len(blobs.ages))
	}
}

// A job with labels is in a queue of its own, and ClaimCheck knows only the queue without them.
func TestBlobsCollect_BlobsOfJobsWithLabelsAreCollected(t *testing.T) {
	t.Parallel()
	b := withJobs(t)
	putJob(t, b, "images+gpu", "lives")
	blobs := &agedBlobs{ages: map[string]time.Duration{blobKey("images", "lives", "x"): time.Hour, blobKey("images", "gone", "x"): time.Hour}}
	got, err := CollectBlobs(t.Context(), blobs, time.Hour, b)
	if want := (CollectedBlobs{Old: 2, Deleted: 1}); err != nil || got != want {
		t.Errorf("collected %+v, error %v; want %+v", got, err, want)
	}
	if left, want := blobs.left(), []string{"images/lives/x"}; !slices.Equal(left, want) {
		t.Errorf("what is left is %q, want %q", left, want)
	}
}

// movingFinder moves a job to another queue before it answers about the queue that has it.
type movingFinder struct {
	broker.Broker
	t       *testing.T
	queues  []string // where the job goes, one after the other
	current broker.Broker
}

func (f *movingFinder) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	if len(f.queues) > 1 && q.Queue == f.queues[0] {
		f.queues = f.queues[1:]
		b := membroker.New()
		f.t.Cleanup(func() { b.Close() })
		putJob(f.t, b, f.queues[0], "moves")
		f.current = b
	}
	return f.current.Find(ctx, q)
}

func TestBlobsCollect_AJobThatIsMovedMeanwhileIsFound(t *testing.T) {
	t.Parallel()
	all := withJobs(t) // it knows the queues
	for _, queue := range []string{"a", "q", "z"} {
		putJob(t, all, queue, "other")
	}
	for _, way := range [][]string{{"q", "a"}, {"q", "z"}, {"a", "q"}, {"z", "q"}, {"z", "a"}, {"q", "z", "a"}, {"a", "z"}} {
		first := withJobs(t)
		putJob(t, first, way[0], "moves")
		blobs := &agedBlobs{ages: map[string]time.Duration{"q/moves/x": time.Hour}}
		got, err := CollectBlobs(t.Context(), blobs, time.Hour, &movingFinder{Broker: all, t: t, queues: way, current: first})
		if err != nil || got.Deleted != 0 || len(blobs.ages) != 1 {
			t.Errorf("moved along %q: collected %+v, error %v; want the blob to stay", way, got, err)
		}
	}
}

// A job goes to a queue that had no jobs before, and leaves no record in its own.
func TestBlobsCollect_AJobThatIsMovedToANewQueueIsFound(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"a", "b", "zz"} {
		b := withJobs(t)
		for _, queue := range []string{"b", "q"} { // q is known, and b has no jobs any more
			putJob(t, b, queue, "other")
		}
		drop(t, b, "b", "other")
		putJob(t, b, "z", "moves")
		moved := false
		finder := broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if q, ok := c.Request.(*broker.Query); ok && q.Queue == "z" && !moved {
				moved = true
				putJob(t, b, to, "moves")
				drop(t, b, "z", "moves")
			}
			return next(ctx)
		})
		blobs := &agedBlobs{ages: map[string]time.Duration{"q/moves/x": time.Hour}}
		got, err := CollectBlobs(t.Context(), blobs, time.Hour, finder)
		if err != nil || got.Deleted != 0 || len(blobs.ages) != 1 || !moved {
			t.Errorf("moved to %s (%v): collected %+v, error %v; want the blob to stay", to, moved, got, err)
		}
	}
}

// drop deletes a job.
func drop(t *testing.T, b broker.Broker, queue, id string) {
	t.Helper()
	results, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpDelete,
		Refs: []broker.Ref{{Queue: queue, ID: id, Epoch: broker.AnyEpoch}}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
}

// Queues without jobs cost no calls.
func TestBlobsCollect_ManyQueuesAndBlobs(t *testing.T) {
	t.Parallel()
	b := withJobs(t, "lives")
	for i := range 50 {
		queue := fmt.Sprint("empty-", i)
		putJob(t, b, queue, "gone")
		drop(t, b, queue, "gone")
	}
	calls := make(map[string]int)
	finder := broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		calls[c.Method]++
		return next(ctx)
	})
	blobs := &agedBlobs{ages: make(map[string]time.Duration)}
	for i := range 6 * collectBatch {
		blobs.ages[blobKey("q", fmt.Sprint("gone-", i), "x")] = time.Hour
	}
	got, err := CollectBlobs(t.Context(), blobs, time.Hour, finder)
	if err != nil || got.Deleted != 6*collectBatch {
		t.Errorf("collected %+v, error %v", got, err)
	}
	// In the queue of the blobs, there and back; and whether it is known.
	if calls["Find"] != 3*6 || calls["Queues"] != 3 {
		t.Errorf("it made the calls %v, want 18 of Find and 3 of Queues", calls)
	}
}
