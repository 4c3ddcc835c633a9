package redisbroker

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

// A caller may go away before its wait has reached the server.
func TestWait_AWaitThatEndsBeforeItBeginsIsEndedAllTheSame(t *testing.T) {
	t.Parallel()
	server, attempts := client(t), new(trips)
	if err := server.Ping(t.Context()).Err(); err != nil { // connects
		t.Fatal(err)
	}
	server.AddHook(attempts)
	w := newWaiter(server)
	t.Cleanup(w.close)
	if err := w.client.Ping(t.Context()).Err(); err != nil { // connects
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w.unblock(done, testenv.Name(t))
	}()
	for attempts.n.Load() < 2 { // the first attempt found nothing to end
		runtime.Gosched()
	}
	start := time.Now()
	err := w.client.BLPop(t.Context(), time.Minute, testenv.Name(t)).Err()
	close(done)
	<-ended
	if took := time.Since(start); !errors.Is(err, redis.Nil) || took > putBackTime {
		t.Errorf("the wait ended after %v with %v, want soon, with nothing", took, err)
	}
}

// Redis before 7.2 crashes if CLIENT UNBLOCK is about a client whose command is held back by CLIENT PAUSE WRITE.
func TestWait_AWaitThatAPauseHoldsBackIsNotEndedBeforeThat(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.PrivateRedis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	server := redis.NewClient(o)
	t.Cleanup(func() { _ = server.Close() })
	w := newWaiter(server)
	t.Cleanup(w.close)
	if err := w.client.Ping(t.Context()).Err(); err != nil { // connects
		t.Fatal(err)
	}
	if err := server.Do(t.Context(), "client", "pause", 200, "write").Err(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.client.BLPop(t.Context(), time.Minute, "t").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("the wait ended with %v, want nothing", err)
		}
	}()
	testenv.Eventually(t, "the wait is held back", func() bool {
		held, err := server.Do(t.Context(), "client", "list", "id", w.id.Load()).Text()
		return err == nil && strings.Contains(held, "flags=b")
	})
	w.hurry("t")
	w.unblock(done, "t")
	if err := server.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the server does not answer: %v", err)
	}
}
