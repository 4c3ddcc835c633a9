package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

func TestClient_EnqueueStoresTheTaskAndSaysWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		c := newTestClient(t, store, ClientConfig{})
		now := time.Now()
		info := mustEnqueue(t, c, NewTask("mail", []byte("\xff\x00")), WithQueue("a"))
		if info.Queue != "a" || info.State != StatePending || !info.RunAt.IsZero() || len(info.ID) != 26 {
			t.Errorf("pending: info is %+v", info)
		}
		job := store.only(t, "a")
		if job.ID != info.ID || job.Type != "mail" || string(job.Payload) != "\xff\x00" || job.GivenID {
			t.Errorf("the stored job is %+v", job)
		}
		info = mustEnqueue(t, c, NewTask("mail", nil), WithQueue("b"), WithDelay(time.Hour), WithID("mine"))
		if info.ID != "mine" || info.State != StateScheduled || !info.RunAt.Equal(now.Add(time.Hour)) {
			t.Errorf("scheduled: info is %+v", info)
		}
		if job := store.only(t, "b"); job.ID != "mine" || !job.GivenID {
			t.Errorf("the stored job is %+v, want the ID as given", job)
		}
	})
}

func TestClient_DuplicateNamesTheHolder(t *testing.T) {
	t.Parallel()
	store := newSpyStore(t)
	c := newTestClient(t, store, ClientConfig{})
	first := mustEnqueue(t, c, NewTask("mail", []byte("p")), WithUniqueUntilDone(time.Hour), WithID("given"))

	info, err := c.Enqueue(t.Context(), NewTask("mail", []byte("p")), WithUniqueUntilDone(time.Hour))
	if !errors.Is(err, ErrDuplicate) || info == nil || info.ID != first.ID {
		t.Errorf("by unique key: got %+v and %v, want ErrDuplicate and the ID %s", info, err, first.ID)
	}
	if err == nil || !strings.Contains(err.Error(), `job "given" holds its unique key`) {
		t.Errorf("the error does not name the holder: %v", err)
	}
	info, err = c.Enqueue(t.Context(), NewTask("mail", nil), WithID("given"))
	if !errors.Is(err, ErrDuplicate) || info == nil || info.ID != "given" {
		t.Errorf("by ID: got %+v and %v, want ErrDuplicate and the ID", info, err)
	}
}

func TestClient_ClientsThatCannotWorkSaySo(t *testing.T) {
	t.Parallel()
	store := newSpyStore(t)
	closed := NewClient(store, ClientConfig{})
	for range 2 {
		if err := closed.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for name, test := range map[string]struct {
		client *Client
		is     error
	}{
		"nil client":     {nil, ErrInvalid},
		"zero client":    {new(Client), ErrInvalid},
		"nil broker":     {NewClient(nil, ClientConfig{}), ErrInvalid},
		"nil pointer":    {NewClient((*membroker.Broker)(nil), ClientConfig{}), ErrInvalid},
		"in nil pointer": {NewClient(store, ClientConfig{}).In((*membroker.Broker)(nil)), ErrInvalid},
		"nil enqueuer":   {NewClient(store, ClientConfig{}).In(nil), ErrInvalid},
		"closed client":  {closed, ErrClosed},
		"in closed":      {closed.In(store), ErrClosed},
		"in nil client":  {(*Client)(nil).In(store), ErrInvalid},
		"in zero client": {new(Client).In(store), ErrInvalid},
	} {
		_, err := test.client.Enqueue(t.Context(), NewTask("mail", nil))
		_, errMany := test.client.EnqueueMany(t.Context(), []*Task{NewTask("mail", nil)})
		_, errWait := test.client.Wait(t.Context(), "default", "id")
		if test.client != nil && test.client.inTx && test.is == ErrInvalid {
			errWait = err // waiting needs no enqueuer
		}
		for call, err := range map[string]error{"Enqueue": err, "EnqueueMany": errMany, "Wait": errWait} {
			if !errors.Is(err, test.is) {
				t.Errorf("%s: %s answered %v, want %v", name, call, err, test.is)
			}
		}
		if err := test.client.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
	_, err := NewClient(store, ClientConfig{}).In(nil).Enqueue(t.Context(), NewTask("mail", nil))
	if err == nil || !strings.Contains(err.Error(), "transaction: invalid: is nil") {
		t.Errorf("In(nil) says %v", err)
	}
	var absent *Client
	if _, err := absent.Draft(NewTask("mail", nil)); !errors.Is(err, ErrInvalid) {
		t.Errorf("Draft of a nil client: %v", err)
	}
	var none context.Context
	if _, err := newTestClient(t, store, ClientConfig{}).Enqueue(none, NewTask("mail", nil)); !errors.Is(err, ErrInvalid) {
		t.Errorf("nil context: %v, want ErrInvalid", err)
	}
	if n := store.sizes(); n != nil {
		t.Errorf("the store was asked, with %v jobs", n)
	}
}

func TestClient_CloseWaitsForCallsUnderWayAndLeavesTheBrokerOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		c := NewClient(store, ClientConfig{})
		done := make(chan error, 2)
		for range 2 { // the second one is sent by the group's own goroutine
			go func() {
				_, err := c.Enqueue(t.Context(), NewTask("mail", nil))
				done <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		_ = c.Close()
		if waited := time.Since(start); waited != 2*time.Second {
			t.Errorf("Close returned after %v, want the two seconds of the calls under way", waited)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("a call under way got %v", err)
			}
		}
		if _, err := store.Ping(t.Context()); err != nil {
			t.Errorf("the broker after the client's Close: %v", err)
		}
	})
}

func TestClient_OfATransactionSendsThroughItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, tx := newSpyStore(t), newSpyStore(t)
		var seen int
		count := func(next EnqueueFunc) EnqueueFunc {
			return func(ctx context.Context, batch []*Outgoing) { seen += len(batch); next(ctx, batch) }
		}
		c := newTestClient(t, store, ClientConfig{Defaults: []Option{WithQueue("q")}, Middleware: []EnqueueMiddleware{count}})
		in := c.In(tx)
		mustEnqueue(t, in, NewTask("mail", nil))
		if tx.only(t, "q"); len(store.sizes()) != 0 || seen != 1 {
			t.Errorf("the broker got %v, the chain saw %d jobs; want none and 1", store.sizes(), seen)
		}
		tx.before = func(int, context.Context, broker.EnqueueRequest) error { return broker.ErrUnavailable }
		start := time.Now()
		if _, err := in.Enqueue(t.Context(), NewTask("mail", nil)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a failed statement gave %v", err)
		}
		if n := len(tx.sizes()); n != 2 || time.Since(start) != 0 {
			t.Errorf("%d statements were sent in %v, want the failed one not repeated", n, time.Since(start))
		}
		_ = in.Close()
		mustEnqueue(t, c, NewTask("mail", nil)) // still open
	})
}

func TestClient_EnqueueManyAnswersEachTask(t *testing.T) {
	t.Parallel()
	const n, bad = 10_000, 4711
	store := newSpyStore(t)
	tasks := make([]*Task, n)
	for i := range tasks {
		tasks[i] = NewTask(fmt.Sprintf("mail:%d", i), nil)
	}
	tasks[bad] = NewTask("", nil)
	receipts, err := newTestClient(t, store, ClientConfig{}).EnqueueMany(t.Context(), tasks, WithQueue("q"))
	if len(receipts) != n {
		t.Fatalf("%d receipts for %d tasks", len(receipts), n)
	}
	for i, r := range receipts {
		if i == bad && (!errors.Is(r.Err, ErrInvalid) || r.ID != "") {
			t.Errorf("the bad task's receipt is %+v", r)
		}
		if i != bad && (r.Err != nil || r.ID == "" || r.State != StatePending) {
			t.Fatalf("receipt %d is %+v", i, r)
		}
	}
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "1 of 10000 tasks were not accepted; the first is number 4711") {
		t.Errorf("the error is %v", err)
	}
	if sizes := store.sizes(); len(sizes) != 10 || slices.Max(sizes) != 1000 {
		t.Errorf("the calls had %v jobs, want ten of at most 1000", sizes)
	}
	next := 0
	for _, call := range store.calls {
		for _, job := range call.jobs {
			if next == bad {
				next++
			}
			if want := fmt.Sprintf("mail:%d", next); job.Body.Type != want {
				t.Fatalf("the store got %s where %s was due: the order is lost", job.Body.Type, want)
			}
			next++
		}
	}
}

func TestClient_EnqueueManyOfNothingAsksNobody(t *testing.T) {
	t.Parallel()
	store := newSpyStore(t)
	c := newTestClient(t, store, ClientConfig{})
	if receipts, err := c.EnqueueMany(t.Context(), nil); len(receipts) != 0 || err != nil {
		t.Errorf("no tasks: %v, %v", receipts, err)
	}
	receipts, err := c.EnqueueMany(t.Context(), []*Task{nil})
	if len(receipts) != 1 || !errors.Is(receipts[0].Err, ErrInvalid) || !errors.Is(err, ErrInvalid) {
		t.Errorf("one nil task: %v, %v", receipts, err)
	}
	if n := store.sizes(); n != nil {
		t.Errorf("the store was asked, with %v jobs", n)
	}
}

func TestClient_LargeTasksShareACallUpToFourMiB(t *testing.T) {
	t.Parallel()
	store := newSpyStore(t)
	tasks := make([]*Task, 9)
	for i := range tasks {
		tasks[i] = NewTask("file", make([]byte, 1<<20))
	}
	if _, err := newTestClient(t, store, ClientConfig{}).EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	if got, want := store.sizes(), []int{3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("the calls had %v jobs of 1 MiB, want %v", got, want)
	}
}

func TestClient_EnqueueChainSeesAndChangesJobsInOrder(t *testing.T) {
	t.Parallel()
	var log []string
	note := func(name string) EnqueueMiddleware {
		return func(next EnqueueFunc) EnqueueFunc {
			return func(ctx context.Context, batch []*Outgoing) {
				log = append(log, fmt.Sprintf("%s %d", name, len(batch)))
				for _, o := range batch {
					o.SetHeader("by", o.Body.Headers["by"]+name)
					o.Body.Payload = append([]byte(name), o.Body.Payload...)
				}
				next(ctx, batch)
				log = append(log, fmt.Sprintf("%s sees %s", name, batch[0].Info.State))
			}
		}
	}
	store := newSpyStore(t)
	c := newTestClient(t, store, ClientConfig{Middleware: []EnqueueMiddleware{note("a"), nil, note("b")}})
	payload := []byte("p")
	mustEnqueue(t, c, NewTask("mail", payload), WithUniqueUntilDone(time.Hour))
	if want := []string{"a 1", "b 1", "b sees pending", "a sees pending"}; !slices.Equal(log, want) {
		t.Errorf("the chain ran as %q, want %q", log, want)
	}
	job := store.only(t, "default")
	if string(job.Payload) != "bap" || job.Headers["by"] != "ab" || string(payload) != "p" {
		t.Errorf("stored payload %q and header %q; the caller's payload is %q", job.Payload, job.Headers["by"], payload)
	}
	if job.Unique.Key != contentKey("mail", payload) {
		t.Error("the derived unique key is not that of the payload before the chain")
	}
}

func TestClient_EnqueueChainMayRefuseSomeAndPassOnOthers(t *testing.T) {
	t.Parallel()
	errPolicy := errors.New("not on Sundays")
	for name, middleware := range map[string]EnqueueFunc{
		"by Err, passing all on": nil,
		"by leaving it out":      storeBatch,
	} {
		guard := func(next EnqueueFunc) EnqueueFunc {
			return func(ctx context.Context, batch []*Outgoing) {
				var rest []*Outgoing
				for _, o := range batch {
					if o.Body.Type == "sunday" {
						o.Err = errPolicy
						if middleware != nil {
							continue
						}
					}
					rest = append(rest, o)
				}
				next(ctx, rest)
			}
		}
		store := newSpyStore(t)
		c := newTestClient(t, store, ClientConfig{Middleware: []EnqueueMiddleware{guard}})
		receipts, err := c.EnqueueMany(t.Context(), []*Task{NewTask("sunday", nil), NewTask("monday", nil)})
		if !errors.Is(err, errPolicy) || !errors.Is(receipts[0].Err, errPolicy) || receipts[0].ID != "" || receipts[1].Err != nil {
			t.Errorf("%s: receipts %+v, error %v", name, receipts, err)
		}
		if store.only(t, "default").Type != "monday" {
			t.Errorf("%s: the wrong job was stored", name)
		}
		if info, err := c.Enqueue(t.Context(), NewTask("sunday", nil)); info != nil || !errors.Is(err, errPolicy) {
			t.Errorf("%s: Enqueue answered %v, %v", name, info, err)
		}
	}
}

func TestClient_EnqueueChainThatForgetsAJobIsFoundOut(t *testing.T) {
	t.Parallel()
	forget := func(EnqueueFunc) EnqueueFunc { return func(context.Context, []*Outgoing) {} }
	c := newTestClient(t, newSpyStore(t), ClientConfig{Middleware: []EnqueueMiddleware{forget}})
	if info, err := c.Enqueue(t.Context(), NewTask("mail", nil)); info != nil || !errors.Is(err, errUnanswered) {
		t.Errorf("got %v, %v", info, err)
	}
}

func TestClient_EnqueueMiddlewareThatReturnsNilIsNamed(t *testing.T) {
	t.Parallel()
	none := func(EnqueueFunc) EnqueueFunc { return nil }
	for name, make := range map[string]func(){
		"client":     func() { NewClient(newSpyStore(t), ClientConfig{Middleware: []EnqueueMiddleware{nil, none}}) },
		"definition": func() { Define[int]("mail").EnqueueWith(nil, none) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "jobs: enqueue middleware 1 (from 0) of a chain returned a nil EnqueueFunc" {
					t.Errorf("%s: the panic is %v", name, got)
				}
			}()
			make()
		}()
	}
}

func TestClient_PanicOfTheChainIsTheCallersAndHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	explode := func(next EnqueueFunc) EnqueueFunc {
		return func(ctx context.Context, batch []*Outgoing) {
			if batch[0].Body.Type == "bomb" {
				panic("boom")
			}
			next(ctx, batch)
		}
	}
	c := NewClient(newSpyStore(t), ClientConfig{Middleware: []EnqueueMiddleware{explode}})
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not reach the caller")
			}
		}()
		_, _ = c.Enqueue(t.Context(), NewTask("bomb", nil))
	}()
	mustEnqueue(t, c, NewTask("mail", nil))
	_ = c.Close() // returns: the call that panicked is not counted as under way
}
