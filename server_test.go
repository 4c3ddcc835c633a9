package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_AServerHandlesWhatAClientEnqueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := membroker.New()
		ran := make(chan string, 1)
		serve(t, b, Config{}, func(_ context.Context, j *Job) error {
			ran <- string(j.Payload())
			return nil
		})
		if _, err := NewClient(b, ClientConfig{}).Enqueue(t.Context(), NewTask("a", []byte("payload"))); err != nil {
			t.Fatal(err)
		}
		if got := <-ran; got != "payload" {
			t.Errorf("the handler got %q", got)
		}
	})
}

func TestServer_StartDrainsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		b, began, gate := newStore(), make(chan context.Context, 2), make(chan struct{})
		s, err := NewServer(b, Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "of Start"))
		if err := s.Start(ctx, HandlerFunc(func(ctx context.Context, _ *Job) error { began <- ctx; <-gate; return nil })); err != nil {
			t.Fatal(err)
		}
		add(t, b, "default", "first", 1)
		handler := <-began
		if got := handler.Value(key{}); got != "of Start" {
			t.Errorf("the handler's context has the value %v, not that of Start's context", got)
		}
		cancel()
		synctest.Wait()
		if err := s.Ready(); err == nil {
			t.Error("the server is ready after the context of Start has ended")
		}
		if err := handler.Err(); err != nil {
			t.Errorf("the handler's context ended with that of Start: %v", err)
		}
		add(t, b, "default", "second", 1)
		close(gate)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if len(began) > 0 {
			t.Error("a job was handled that came after the context of Start had ended")
		}
		var none context.Context
		if err := s.Start(none, HandlerFunc(func(context.Context, *Job) error { return nil })); !errors.Is(err, ErrInvalid) {
			t.Errorf("Start without a context says %v", err)
		}
	})
}

func TestServer_AServerCanBeStartedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := HandlerFunc(func(context.Context, *Job) error { return nil })
		s := serve(t, newStore(), Config{}, h)
		if err := s.Start(context.Background(), h); !errors.Is(err, ErrStarted) {
			t.Errorf("the second Start says %v", err)
		}
		if err := s.Run(t.Context(), h); !errors.Is(err, ErrStarted) {
			t.Errorf("a Run after Start says %v", err)
		}
		for range 2 {
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := s.Start(context.Background(), h); !errors.Is(err, ErrStarted) {
			t.Errorf("a Start after the Shutdown says %v", err)
		}
		never, err := NewServer(newStore(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := never.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := never.Start(context.Background(), h); !errors.Is(err, ErrStarted) {
			t.Errorf("a Start after a Shutdown alone says %v", err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		for range 50 {
			if err := errors.Join(s.Shutdown(ended), never.Shutdown(ended)); err != nil {
				t.Fatalf("the Shutdown of a server that has ended says %v", err)
			}
		}
	})
}

func TestServer_AServerNeedsABrokerAHandlerAndAContext(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]broker.Broker{"no broker": nil, "a nil pointer": (*membroker.Broker)(nil)} {
		if _, err := NewServer(b, Config{}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "broker: invalid: is nil") {
			t.Errorf("with %s: %v", name, err)
		}
	}
	s, err := NewServer(newStore(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background(), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("without a handler: %v", err)
	}
	if err := s.Start(context.Background(), HandlerFunc(nil)); !errors.Is(err, ErrInvalid) {
		t.Errorf("with a nil HandlerFunc: %v", err)
	}
	if err := s.Start(context.Background(), (*ServeMux)(nil)); !errors.Is(err, ErrInvalid) {
		t.Errorf("with a nil ServeMux: %v", err)
	}
	var none context.Context
	if err := s.Run(none, HandlerFunc(func(context.Context, *Job) error { return nil })); !errors.Is(err, ErrInvalid) {
		t.Errorf("without a context: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServer_ReadyTellsWhyNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var hang atomic.Bool
		tapped := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if hang.Load() {
				<-ctx.Done()
			}
			return b.Claim(ctx, req)
		}}
		s, err := NewServer(tapped, Config{Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		wants := func(text string) {
			t.Helper()
			if err := s.Ready(); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("Ready says %v, want %q", err, text)
			}
		}
		wants("not started")
		gate := make(chan struct{})
		if err := s.Start(context.Background(), HandlerFunc(func(context.Context, *Job) error { <-gate; return nil })); err != nil {
			t.Fatal(err)
		}
		wants("registered")
		synctest.Wait()
		if err := s.Ready(); err != nil {
			t.Error(err)
		}
		add(t, b, DefaultQueue, "a", 1)
		pass(20 * time.Minute)
		if err := s.Ready(); err != nil {
			t.Error("with every slot taken for long:", err)
		}
		hang.Store(true)
		close(gate)
		synctest.Wait()
		if err := s.Ready(); err != nil {
			t.Error("just after the slot was freed:", err)
		}
		pass(time.Minute)
		wants("ago")
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		wants("has ended") // while it drains: TestServer_ProbesFollowTheLifeOfAServer
	})
}

func TestServer_AServerWhoseBrokerIsClosedEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := membroker.New()
		s := serve(t, b, Config{}, func(context.Context, *Job) error { return nil })
		synctest.Wait()
		b.Close()
		pass(time.Second)
		select {
		case <-s.engine.Done():
		default:
			t.Fatal("it goes on")
		}
		if !errors.Is(s.engine.Err(), ErrClosed) {
			t.Errorf("it ended with %v, want ErrClosed", s.engine.Err())
		}
	})
}

func TestServer_AServerThatTheStoreRefusesEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &tap{Broker: newStore(), renew: func(context.Context, broker.RenewRequest) (broker.Renewed, error) {
			return broker.Renewed{}, broker.About(broker.ErrNewerForm, "renew", DefaultQueue, "")
		}}
		s := serve(t, b, Config{}, func(context.Context, *Job) error { return nil })
		<-s.engine.Done()
		if !errors.Is(s.engine.Err(), ErrNewerForm) {
			t.Errorf("it ended with %v, want ErrNewerForm", s.engine.Err())
		}
	})
}

func TestServer_HooksSeeWhatHappens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := unsure(newStore())
		add(t, b, DefaultQueue, "a", 3)
		var seen tally
		cfg := Config{Hooks: Hooks{
			Claim: func(e ClaimEvent) {
				seen.add("claimed", len(e.Jobs))
				if len(e.Jobs) > 0 && !e.Now.Equal(time.Now()) {
					t.Errorf("the store's clock is %v", e.Now)
				}
			},
			Settle: func(e SettleEvent) {
				for i := range e.Verdicts {
					seen.add(e.Items[i].Outcome.Kind().String(), 1)
				}
			},
			Renew:   func(e RenewEvent) { seen.add("renewed", 1) },
			Reclaim: func(e ReclaimEvent) { seen.add("reclaimed", 1+len(e.Jobs)) },
		}}
		s := serve(t, b, cfg, func(_ context.Context, j *Job) error {
			if j.ID() == "a-0" {
				return SkipRetry
			}
			return nil
		})
		pass(time.Minute)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for name, want := range map[string]int{"claimed": 3, "complete": 2, "dead": 1, "renewed": 12, "reclaimed": 40} {
			if n := seen.get(name); n < want || want < 10 && n != want {
				t.Errorf("%s: %d, want %d", name, n, want)
			}
		}
	})
}

// The tests of Run have real signals, so they run apart from the others.

func TestServer_RunDrainsWhenItsContextEnds(t *testing.T) {
	b := newStore()
	add(t, b, DefaultQueue, "a", 1)
	s, err := NewServer(b, Config{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Run(ctx, HandlerFunc(func(handlers context.Context, _ *Job) error {
		cancel()
		return handlers.Err()
	})); err != nil {
		t.Error(err)
	}
	expect(t, b, DefaultQueue, "a-0", StateCompleted)
}

func TestServer_RunDrainsOnSignalsAndHurriesOnTheSecond(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			b := newStore()
			add(t, b, DefaultQueue, "a", 1)
			s, err := NewServer(b, Config{Logger: discard, ShutdownTimeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Run(t.Context(), HandlerFunc(func(ctx context.Context, _ *Job) error {
				if err := self.Signal(sig); err != nil {
					t.Error(err)
				}
				<-s.engine.Draining()
				if err := self.Signal(sig); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})); err != nil {
				t.Error(err)
			}
			expect(t, b, DefaultQueue, "a-0", StatePending)
		})
	}
}

func TestServer_RunHurriesOnASecondSignalOnlyWhateverBeganTheDrain(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, drain := range map[string]func(*Server, context.CancelFunc){
		"the context ended": func(_ *Server, end context.CancelFunc) { end() },
		"Shutdown":          func(s *Server, _ context.CancelFunc) { go s.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			b, log := newStore(), new(testLog)
			add(t, b, DefaultQueue, "a", 1)
			s, err := NewServer(b, Config{Logger: log.logger(), ShutdownTimeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			if err := s.Run(ctx, HandlerFunc(func(ctx context.Context, _ *Job) error {
				drain(s, end)
				<-s.engine.Draining()
				for n := range 2 {
					if ctx.Err() != nil {
						t.Errorf("the handler's context ended after %d signals", n)
					}
					if err := self.Signal(syscall.SIGTERM); err != nil {
						t.Error(err)
					}
					for n == 0 && len(log.lines("got a signal")) == 0 && ctx.Err() == nil {
						runtime.Gosched()
					}
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})); err != nil {
				t.Error(err)
			}
			expect(t, b, DefaultQueue, "a-0", StatePending)
		})
	}
}
