package payload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// agedBlobs is a store in which tests set the age of blobs.
type agedBlobs struct {
	Blobs
	mu   sync.Mutex
	ages map[string]time.Duration
}

func (a *agedBlobs) List(_ context.Context, age time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, of := range a.ages {
			if of >= age && !yield(key, nil) {
				return
			}
		}
	}
}

func (a *agedBlobs) Delete(_ context.Context, key string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ages, key)
	return nil
}

func (a *agedBlobs) left() []string {
	var keys []string
	for key := range a.ages {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// brokenFinder is a broker whose calls fail, or whose answers come in pages.
type brokenFinder struct {
	broker.Broker
	err   error
	pages bool
}

func (f *brokenFinder) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	if f.err != nil {
		return broker.Page{}, f.err
	}
	if f.pages && q.Cursor == "" {
		return broker.Page{Cursor: "more"}, nil
	}
	q.Cursor = ""
	return f.Broker.Find(ctx, q)
}

func withJobs(t *testing.T, ids ...string) broker.Broker {
	t.Helper()
	b := membroker.New()
	t.Cleanup(func() { b.Close() })
	for _, id := range ids {
		receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{
			{Queue: "q", ID: id, Delay: time.Hour, Body: broker.Body{Type: "report", Priority: broker.PriorityNormal}}}})
		if err != nil || receipts[0].Err != nil {
			t.Fatal(err, receipts)
		}
	}
	return b
}

func TestBlobsCollect_OrphansAreCollectedAfterTheGrace(t *testing.T) {
	t.Parallel()
	for name, finder := range map[string]func(broker.Broker) JobFinder{
		"at once":  func(b broker.Broker) JobFinder { return b },
		"by pages": func(b broker.Broker) JobFinder { return &brokenFinder{Broker: b, pages: true} },
	} {
		blobs := &agedBlobs{ages: map[string]time.Duration{
			"q/lives/a": 48 * time.Hour, "q/lives/b": 48 * time.Hour,
			"q/gone/a": DefaultBlobGrace, "q/gone/b": DefaultBlobGrace - 1,
			"other/gone/a": 48 * time.Hour, "strange": 48 * time.Hour, "q//x": 48 * time.Hour, "{q}/gone/a": 48 * time.Hour,
		}}
		got, err := CollectBlobs(t.Context(), blobs, 0, finder(withJobs(t, "lives")))
		if want := (CollectedBlobs{Old: 7, Deleted: 1, Strange: 4}); err != nil || got != want {
			t.Errorf("%s: collected %+v, error %v; want %+v", name, got, err, want)
		}
		want := []string{"other/gone/a", "q//x", "q/gone/b", "q/lives/a", "q/lives/b", "strange", "{q}/gone/a"}
		if left := blobs.left(); !slices.Equal(left, want) {
			t.Errorf("%s: what is left is %q, want %q", name, left, want)
		}
	}
}

func TestBlobsCollect_ManyBlobsAreCollectedInBatches(t *testing.T) {
	t.Parallel()
	blobs := &agedBlobs{ages: make(map[string]time.Duration)}
	var alive []string
	for i := range 3*collectBatch + 1 {
		id := fmt.Sprintf("job-%d", i)
		blobs.ages[blobKey("q", id, "x")] = time.Hour
		if i%3 == 0 {
			alive = append(alive, id)
		}
	}
	got, err := CollectBlobs(t.Context(), blobs, time.Hour, withJobs(t, alive...))
	if err != nil || got.Deleted != 3*collectBatch+1-len(alive) || len(blobs.ages) != len(alive) {
		t.Errorf("collected %+v, error %v, %d are left; want those of %d jobs to be left", got, err, len(blobs.ages), len(alive))
	}
}

func TestBlobsCollect_NothingIsDeletedWhenTheJobsCannotBeAsked(t *testing.T) {
	t.Parallel()
	down := errors.New("i/o timeout")
	blobs := &agedBlobs{ages: map[string]time.Duration{"q/gone/a": time.Hour}}
	got, err := CollectBlobs(t.Context(), blobs, time.Hour, &brokenFinder{Broker: withJobs(t, "lives"), err: down})
	if !errors.Is(err, down) || got.Deleted != 0 || len(blobs.ages) != 1 {
		t.Errorf("collected %+v, error %v, %d are left; want the error and every blob left", got, err, len(blobs.ages))
	}
	if _, err := CollectBlobs(t.Context(), brokenBlobs{down}, 0, withJobs(t)); !errors.Is(err, down) {
		t.Errorf("a store of blobs that fails was answered %v", err)
	}
	if _, err := CollectBlobs(t.Context(), blobs, -1, withJobs(t)); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("a negative grace was answered %v, want ErrInvalid", err)
	}
}
