package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// marks is middleware that writes name into the header "path" of each job, and what
// it saw before and after into seen.
func marks(name string, seen *[]string) EnqueueMiddleware {
	return func(next EnqueueFunc) EnqueueFunc {
		return func(ctx context.Context, batch []*Outgoing) {
			var types []string
			for _, o := range batch {
				types = append(types, o.Body.Type+"/"+string(o.Body.Payload))
				o.SetHeader("path", o.Body.Headers["path"]+">"+name)
			}
			*seen = append(*seen, name+" gets "+strings.Join(types, " "))
			next(ctx, batch)
			for _, o := range batch {
				if o.Err == nil && o.Info.State != StatePending {
					*seen = append(*seen, name+" has no answer for "+o.Body.Type)
				}
			}
		}
	}
}

func task[T any](t *testing.T, d Definition[T], args T) *Task {
	t.Helper()
	task, err := d.Task(args)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestDefinition_EnqueueWithSeesItsTasksOnly(t *testing.T) {
	t.Parallel()
	var seen []string
	store := newSpyStore(t)
	client := newTestClient(t, store, ClientConfig{Middleware: []EnqueueMiddleware{marks("client", &seen)}})
	plain := Define[int]("mail")
	mail := plain.EnqueueWith(marks("mail", &seen), nil).EnqueueWith(marks("inner", &seen))
	report := Define[int]("report").EnqueueWith(marks("report", &seen))

	receipts, err := client.EnqueueMany(t.Context(), []*Task{task(t, mail, 1), task(t, report, 2), NewTask("other", []byte("3")),
		task(t, plain, 4), task(t, mail, 5).With(WithHeader("a", "b"))})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"client gets mail/1 report/2 other/3 mail/4 mail/5", "mail gets mail/1 mail/5", "inner gets mail/1 mail/5",
		"report gets report/2"}
	if !slices.Equal(seen, want) {
		t.Errorf("the middleware saw\n\t%s\nwant\n\t%s", strings.Join(seen, "\n\t"), strings.Join(want, "\n\t"))
	}
	if sizes := store.sizes(); !slices.Equal(sizes, []int{5}) {
		t.Errorf("the store got calls of %v jobs, want one of 5", sizes)
	}
	paths := []string{">client>mail>inner", ">client>report", ">client", ">client", ">client>mail>inner"}
	for i, job := range store.calls[0].jobs {
		if string(job.Body.Payload) != string('1'+rune(i)) || job.Body.Headers["path"] != paths[i] || job.ID != receipts[i].ID {
			t.Errorf("job %d is stored as %s with path %q and ID %s; want payload %d, path %q, ID %s",
				i, job.Body.Payload, job.Body.Headers["path"], job.ID, i+1, paths[i], receipts[i].ID)
		}
	}

	seen = nil
	if _, err := mail.Enqueue(t.Context(), client, 6); err != nil {
		t.Fatal(err)
	}
	if want := []string{"client gets mail/6", "mail gets mail/6", "inner gets mail/6"}; !slices.Equal(seen, want) {
		t.Errorf("Enqueue: the middleware saw %q, want %q", seen, want)
	}
}

// A middleware that passes nothing on, or refuses one of its jobs, harms no others.
func TestDefinition_EnqueueWithRefuses(t *testing.T) {
	t.Parallel()
	errNo := errors.New("not today")
	var kept []*Outgoing
	closed := Define[int]("closed").EnqueueWith(func(next EnqueueFunc) EnqueueFunc {
		return func(_ context.Context, batch []*Outgoing) {
			for _, o := range batch {
				o.Err = errNo
				kept = append(kept, o)
			}
		}
	})
	odd := Define[int]("odd").EnqueueWith(func(next EnqueueFunc) EnqueueFunc {
		return func(ctx context.Context, batch []*Outgoing) {
			for _, o := range batch {
				if o.Body.Payload[0]%2 == 0 {
					o.Err = errNo
				}
			}
			next(ctx, batch)
		}
	})
	store := newSpyStore(t)
	client := newTestClient(t, store, ClientConfig{})
	receipts, err := client.EnqueueMany(t.Context(), []*Task{task(t, closed, 1), task(t, odd, 2), task(t, odd, 3), NewTask("other", nil)})
	if !errors.Is(err, errNo) {
		t.Errorf("EnqueueMany says %v, want the refusal", err)
	}
	for i, want := range []error{errNo, errNo, nil, nil} {
		if got := receipts[i].Err; !errors.Is(got, want) || (want == nil) != (got == nil) {
			t.Errorf("task %d: %v, want %v", i, got, want)
		}
	}
	if sizes := store.sizes(); !slices.Equal(sizes, []int{2}) {
		t.Errorf("the store got calls of %v jobs, want one of 2", sizes)
	}

	// A job that a middleware keeps is not used again for another one.
	kept = nil
	for n := range 3 {
		if _, err := closed.Enqueue(t.Context(), client, n); !errors.Is(err, errNo) {
			t.Errorf("Enqueue says %v, want the refusal", err)
		}
	}
	for n, o := range kept {
		if want := string('0' + rune(n)); string(o.Body.Payload) != want {
			t.Errorf("the middleware kept job %s, which is now %q", want, o.Body.Payload)
		}
	}
}

func TestEnqueue_WhatMiddlewareSetsIsCheckedAndMeasuredAsOptionsAre(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set  func(*Outgoing)
		due  time.Duration
		says string
	}{
		"a delay":                  {func(o *Outgoing) { o.Delay = time.Hour }, time.Hour, ""},
		"no delay":                 {func(o *Outgoing) { o.Delay = 0 }, 0, ""},
		"a timeout without a unit": {func(o *Outgoing) { o.Body.Timeout = 30 }, 0, "timeout"},
	} {
		store := newSpyStore(t)
		client := newTestClient(t, store, ClientConfig{Middleware: []EnqueueMiddleware{func(next EnqueueFunc) EnqueueFunc {
			return func(ctx context.Context, batch []*Outgoing) {
				test.set(batch[0])
				next(ctx, batch)
			}
		}}})
		_, err := client.Enqueue(t.Context(), NewTask("mail", nil), WithDelay(time.Minute))
		if test.says != "" {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: the error is %v, want ErrInvalid that names %s", name, err, test.says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := store.calls[0].jobs[0].Body.DueAfter; got != test.due {
			t.Errorf("%s: the job is due after %v, want %v", name, got, test.due)
		}
	}
}
