package workflow

import (
	"context"
	"errors"
	"strings"
	"testing"

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
