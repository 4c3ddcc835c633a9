package jobs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// pairs has callers enqueue into a store for which a second call is worth it from
// 16 jobs on, and tells how many jobs each call had that it saw begin, in order.
func pairs(t *testing.T, script func(add func(callers int), end func(call int), began func() []int), payload ...byte) {
	synctest.Test(t, func(t *testing.T) {
		var ends [10]chan struct{}
		for i := range ends {
			ends[i] = make(chan struct{})
		}
		store := newSpyStore(t)
		store.limits.PairFrom = 16
		store.before = func(call int, ctx context.Context, _ broker.EnqueueRequest) error {
			<-ends[call]
			return nil
		}
		cs := newCallers(newTestClient(t, store, ClientConfig{CallTimeout: time.Hour}))
		total := 0
		script(func(n int) {
			for range n {
				total++
				cs.enqueue(t.Context(), NewTask(fmt.Sprint(total), payload))
				synctest.Wait()
			}
		}, func(call int) {
			close(ends[call])
			synctest.Wait()
		}, store.sizes)
		for _, end := range ends {
			select {
			case <-end:
			default:
				close(end)
			}
		}
		for _, r := range cs.wait() {
			if r.err != nil {
				t.Errorf("caller %s: %v", r.typ, r.err)
			}
		}
		if n := len(store.stored(t, "default")); n != total {
			t.Errorf("%d callers stored %d jobs", total, n)
		}
	})
}

func TestHalfOfTheCallersGoInASecondCall(t *testing.T) {
	pairs(t, func(add func(int), end func(int), began func() []int) {
		check := func(when string, want ...int) {
			t.Helper()
			if got := began(); !slices.Equal(got, want) {
				t.Errorf("%s: calls of %v jobs have begun, want %v", when, got, want)
			}
		}
		add(1 + 15)
		check("15 gathered beside a call", 1)
		add(1)
		check("16 gathered", 1, 16)
		add(100)
		check("two calls are under way", 1, 16)
		end(0)
		check("the first is over", 1, 16, 100)
		add(99)
		check("the second is under way with 16 jobs and a third with 100", 1, 16, 100)
		end(1)
		check("99 of 199 callers wait beside one call", 1, 16, 100)
		add(1)
		check("100 of 200 do", 1, 16, 100, 100)
		end(2)
		end(3)
		check("nobody waits", 1, 16, 100, 100)
		add(3)
		check("a caller comes to an idle client, and two more", 1, 16, 100, 100, 1)
		end(4)
		check("their call is next, worth it or not", 1, 16, 100, 100, 1, 2)
	})
}

// Who has left does not make a call worth it.
func TestThoseWhoLeftAreNotWorthACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		store.limits.PairFrom = 16
		cs := newCallers(newTestClient(t, store, ClientConfig{}))
		enqueue := func(ctx context.Context, n int, name string) {
			for i := range n {
				cs.enqueue(ctx, NewTask(fmt.Sprint(name, i), nil))
			}
			synctest.Wait()
		}
		ctx, leave := context.WithCancel(t.Context())
		enqueue(t.Context(), 1, "first")
		enqueue(ctx, 15, "leaves")
		leave()
		synctest.Wait()
		enqueue(t.Context(), 1, "stays")
		if got := store.sizes(); !slices.Equal(got, []int{1}) {
			t.Errorf("calls of %v jobs are under way, want one call", got)
		}
		cs.wait()
	})
}

// Jobs that are large fill a call before they are as many as make one worth it.
func TestACallFullOfLargeJobsIsWorthASecond(t *testing.T) {
	pairs(t, func(add func(int), end func(int), began func() []int) {
		add(1)
		add(14)
		if got := began(); len(got) != 1 {
			t.Errorf("calls of %v jobs have begun, want one", got)
		}
		add(1)
		if got, want := began(), []int{1, 14}; !slices.Equal(got, want) {
			t.Errorf("calls of %v jobs have begun, want %v", got, want)
		}
	}, make([]byte, maxSendBytes/15)...)
}

// However many callers there are, as many as fit a call are worth one.
func TestAFullCallIsWorthASecond(t *testing.T) {
	pairs(t, func(add func(int), end func(int), began func() []int) {
		add(1)
		add(16)
		add(maxSendJobs)
		end(0)
		add(maxSendJobs + 200)
		end(1)
		if got, want := began(), []int{1, 16, maxSendJobs, maxSendJobs}; !slices.Equal(got, want) {
			t.Errorf("calls of %v jobs have begun, want %v", got, want)
		}
	})
}
