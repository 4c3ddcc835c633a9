package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
)

func TestServerHandlesWhatAClientEnqueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		s, err := NewServer(b, Config{})
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan string, 1)
		if err := s.Start(HandlerFunc(func(ctx context.Context, j *Job) error {
			ran <- j.Type()
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		c := NewClient(b, ClientConfig{})
		if _, err := c.Enqueue(t.Context(), NewTask("a", nil)); err != nil {
			t.Fatal(err)
		}
		if got := <-ran; got != "a" {
			t.Errorf("ran %q", got)
		}
		start := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		t.Log(time.Since(start))
	})
}
