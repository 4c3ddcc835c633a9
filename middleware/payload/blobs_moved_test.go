package payload

import (
	"context"
	"errors"
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
