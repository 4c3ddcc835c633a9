package workflow

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
)

func TestSetResult_AResultThatCannotBeEncodedIsNotRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("a", func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, make(chan int)) })
		info := w.run(New("w").Add(node("a")), StateFailed)
		if w.began() != "a" {
			t.Errorf("%s ran, want a once: no retry can encode the result", w.began())
		}
		if msg := info.Nodes[0].Error; !strings.Contains(msg, `node "a"`) || !strings.Contains(msg, "chan int") {
			t.Errorf("the node says %q, want its name and the type", msg)
		}
	})
}

func TestResult_AnErrorDoesNotQuoteTheResult(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("a", func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, 4711) })
		w.on("b", func(ctx context.Context, _ *jobs.Job) error {
			_, err := Result[int8](ctx, "a")
			if !errors.Is(err, jobs.SkipRetry) || strings.Contains(err.Error(), "4711") || !strings.Contains(err.Error(), `node "a"`) {
				t.Errorf("Result says %q; want SkipRetry and the node, without the result", err)
			}
			return nil
		})
		w.run(New("w").Add(Chain(node("a"), node("b"))), StateCompleted)
	})
}

func TestScope_AHandlerOutsideOfAWorkflowGetsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	s := Of(t.Context())
	if err := s.Add(t.Context(), node("a")); !errors.Is(err, errNoScope) {
		t.Errorf("Add says %v, want %v", err, errNoScope)
	}
	if _, err := s.Info(t.Context()); !errors.Is(err, errNoScope) {
		t.Errorf("Info says %v, want %v", err, errNoScope)
	}
	if s.ID() != "" || s.Node() != "" {
		t.Errorf("the workflow is %q, the node %q", s.ID(), s.Node())
	}
}

// Stores do not distinguish an empty result from none.
func TestResult_AnEmptyOneIsNoneInEveryStore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("a", func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, []byte{}) })
		w.on("b", func(ctx context.Context, _ *jobs.Job) error {
			all, err := Results[[]byte](ctx)
			if _, none := Result[[]byte](ctx, "a"); err != nil || len(all) != 0 || !errors.Is(none, ErrNoResult) {
				t.Errorf("Results gives %v, %v, and Result %v; want none", all, err, none)
			}
			return nil
		})
		w.run(New("w").Add(Chain(node("a"), node("b"))), StateCompleted)
	})
}

// The context of a batch belongs to no single job, so a result set with it would be that of any of them.
func TestOf_TheContextOfABatchBelongsToNoWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		mux := jobs.NewServeMux()
		jobs.HandleMany(mux, jobs.Define[string]("task"), jobs.ManyConfig{Max: 2, Wait: time.Minute},
			func(ctx context.Context, batch []*jobs.BatchJob[string]) error {
				if s, err := Of(ctx), SetResult(ctx, "of the batch"); s != nil || err == nil {
					t.Errorf("the batch of %d is in node %q, and SetResult says %v", len(batch), s.Node(), err)
				}
				for _, j := range batch {
					j.Err = SetResult(j.Context, j.Job.Header(HeaderNode))
				}
				return nil
			})
		w.up()
		w.on("a", mux.ProcessJob)
		w.on("b", mux.ProcessJob)
		w.run(New("w").Add(Group(node("a"), node("b"))), StateCompleted)
		for _, n := range w.info("w").Nodes {
			record, err := w.client.Wait(w.Context(), n.Queue, n.JobID)
			if err != nil || string(record.Result) != strconv.Quote(n.Name) {
				t.Errorf("the result of %s is %v, %v", n.Name, record, err)
			}
		}
	})
}

func TestAwait_BytesAreReturnedAsTheyAre(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("a", func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, []byte("not JSON")) })
		w.run(New("w").Add(node("a")), StateCompleted)
		if got, err := Await[[]byte](w.Context(), w.client, "w"); err != nil || string(got) != "not JSON" {
			t.Errorf("Await gives %q, %v", got, err)
		}
	})
}

// The job by which a workflow is stored is none of the caller's business.
func TestWait_ErrorsAreAboutTheWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.fails("a")
		w.up()
		w.start(New("w").Add(node("a")))
		ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		_, failed := Wait(ctx, w.client, "w")
		_, gone := Await[string](ctx, w.client, "never")
		for want, err := range map[string]error{
			`jobs: wait for workflow "w": the job is dead: `:                                                                 failed,
			`jobs: await workflow "never": not found: the job left no record: it was not started, or its record was removed`: gone,
		} {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("the error is %v, want %s", err, want)
			}
		}
		if !errors.Is(failed, jobs.ErrDead) || !errors.Is(gone, jobs.ErrGone) {
			t.Errorf("the errors are not ErrDead and ErrGone: %v; %v", failed, gone)
		}
	})
}
