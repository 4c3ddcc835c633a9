package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// get asks a handler and returns the status and the body.
func get(t testing.TB, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

// wantStatus checks one answer.
func wantStatus(t testing.TB, h http.Handler, path string, status int, text string) {
	t.Helper()
	if got, body := get(t, h, http.MethodGet, path); got != status || !strings.Contains(body, text) {
		t.Errorf("GET %s answers %d %q, want %d and %q in it", path, got, body, status, text)
	}
}

func statsOf(t testing.TB, h http.Handler, status int) (st stats) {
	t.Helper()
	got, body := get(t, h, http.MethodGet, "/stats")
	if got != status {
		t.Errorf("GET /stats answers %d, want %d: %s", got, status, body)
	}
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Errorf("the stats are no JSON: %v: %s", err, body)
	}
	return st
}

func TestServer_ProbesFollowTheLifeOfAServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		s, err := NewServer(b, Config{Concurrency: 1, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		h := s.Health()
		wantStatus(t, h, "/healthz", 200, "ok")
		wantStatus(t, h, "/readyz", 503, "not started")

		gate := make(chan struct{})
		if err := s.Start(context.Background(), HandlerFunc(func(context.Context, *Job) error { <-gate; return nil })); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantStatus(t, h, "/healthz", 200, "ok")
		wantStatus(t, h, "/readyz", 200, "ok")

		add(t, b, DefaultQueue, "a", 1)
		pass(time.Second)
		ended := make(chan error)
		go func() { ended <- s.Shutdown(context.Background()) }()
		pass(time.Second)
		wantStatus(t, h, "/healthz", 200, "ok") // it must not be killed while it drains
		wantStatus(t, h, "/readyz", 503, "draining")
		if st := statsOf(t, h, 200); !st.Draining || st.Ready || st.Running != 1 {
			t.Errorf("while it drains one handler, the stats are %+v", st)
		}
		close(gate)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		wantStatus(t, h, "/healthz", 503, "has ended")
		wantStatus(t, h, "/readyz", 503, "has ended")
	})
}

func TestServer_ReadinessNeedsAClaimThatSucceededLatelyAndLivenessDoesNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCable(newStore())
		s := serve(t, c, Config{ReadinessWindow: 10 * time.Second, Lease: time.Minute}, func(context.Context, *Job) error { return nil })
		h := s.Health()
		pass(time.Hour)
		wantStatus(t, h, "/readyz", 200, "ok") // idle for long, and claims go round all the time

		c.setCut(true)
		pass(8 * time.Second)
		wantStatus(t, h, "/readyz", 200, "ok") // a short outage takes nobody out of service
		pass(4 * time.Second)
		wantStatus(t, h, "/readyz", 503, "ago")
		wantStatus(t, h, "/healthz", 200, "ok") // a restart would not bring the store back

		c.setCut(false)
		pass(10 * time.Second)
		wantStatus(t, h, "/readyz", 200, "ok")
	})
}

func TestServer_StatsShowTheServerAndItsQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		gate := make(chan struct{})
		cfg := Config{Concurrency: 2, Queues: map[string]int{"mail": 3, "never used": 1}, Program: "shop v7"}
		s := serve(t, b, cfg, func(ctx context.Context, j *Job) error {
			if j.Type() == "bad" {
				return SkipRetry
			}
			<-gate
			return nil
		})
		h := s.Health()
		add(t, b, "mail", "bad", 1)
		pass(time.Minute)
		add(t, b, "mail", "good", 5)
		pass(time.Minute)
		add(t, b, "others", "good", 1) // is not this server's

		st := statsOf(t, h, 200)
		if !st.Ready || st.Error != "" || st.Draining || st.Program != "shop v7" || st.Worker == "" ||
			st.Concurrency != 2 || st.Running != 2 || st.Stuck != 0 || st.LastClaim == nil || st.LastRenewal == nil {
			t.Errorf("of the server the stats say %+v", st)
		}
		if len(st.Queues) != 2 || st.Queues[0].Name != "mail" || st.Queues[1].Name != "never used" {
			t.Fatalf("the queues are %+v, want mail, which has more weight, and the one that is not there yet", st.Queues)
		}
		mail, unused := st.Queues[0], st.Queues[1]
		if mail.Weight != 3 || mail.Paused || mail.Jobs[StateDead] != 1 || mail.Jobs[StateActive]+mail.Jobs[StatePending] != 5 {
			t.Errorf("of the queue the stats say %+v, want 1 dead job, and 5 that are active or pending", mail)
		}
		if mail.OldestSeconds[StateDead] != 120 || mail.OldestSeconds[StatePending] != 60 {
			t.Errorf("the ages are %v, want 120 s of the dead job and 60 s of the pending ones", mail.OldestSeconds)
		}
		if n, ok := unused.Jobs[StatePending]; n != 0 || !ok || len(unused.Jobs) != len(broker.States()) {
			t.Errorf("of a queue without jobs the stats say %+v, want a zero for each state", unused.Jobs)
		}

		if err := inspect.New(b).Pause(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		if st := statsOf(t, h, 200); !st.Queues[0].Paused {
			t.Error("the stats do not say that the queue is paused")
		}
		if _, err := inspect.New(b).Select(inspect.Query{Queue: "mail", State: StateDead}).Suppress(t.Context()); err != nil {
			t.Fatal(err)
		}
		if mail := statsOf(t, h, 200).Queues[0]; mail.Jobs[StateDead] != 0 || mail.Suppressed != 1 {
			t.Errorf("of a queue whose dead job is suppressed the stats say %d dead and %d suppressed, want 0 and 1", mail.Jobs[StateDead],
				mail.Suppressed)
		}
		close(gate)
	})
}

// countless is a broker that fails to count.
type countless struct {
	broker.Broker
	fails atomic.Bool
}

func (b *countless) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	if b.fails.Load() {
		return broker.QueuesReply{}, errors.New("i/o timeout")
	}
	return b.Broker.Queues(ctx, req)
}

func TestServer_StatsSayWhatTheServerKnowsWhenTheStoreDoesNotAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &countless{Broker: membroker.New()}
		s := serve(t, b, Config{Concurrency: 3}, func(context.Context, *Job) error { return nil })
		synctest.Wait()
		b.fails.Store(true)
		st := statsOf(t, s.Health(), 503)
		if !strings.Contains(st.Error, "i/o timeout") || !st.Ready || st.Concurrency != 3 || len(st.Queues) != 0 {
			t.Errorf("without counts the stats are %+v, want the error, no queues, and the rest", st)
		}
	})
}

func TestServer_HealthOnlyReads(t *testing.T) {
	t.Parallel()
	s, err := NewServer(newStore(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := s.Health()
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/stats", http.StatusMethodNotAllowed},
		{"DELETE", "/readyz", http.StatusMethodNotAllowed},
		{"HEAD", "/healthz", http.StatusOK},
		{"GET", "/", http.StatusNotFound},
		{"GET", "/metrics", http.StatusNotFound},
	} {
		if status, body := get(t, h, c.method, c.path); status != c.status {
			t.Errorf("%s %s answers %d %q, want %d", c.method, c.path, status, body, c.status)
		}
	}
}
