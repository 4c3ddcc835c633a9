package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// nilError is an error whose nil pointer cannot be read.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// kindError is an error whose nil pointer has a text.
type kindError struct{}

func (*kindError) Error() string { return "kind" }

// wildError is an error whose methods fail as they are told to.
type wildError struct{ text, is, as, unwrap func() }

func (e wildError) Error() string        { call(e.text); return "wild" }
func (e wildError) Is(error) bool        { call(e.is); return false }
func (e wildError) As(any) bool          { call(e.as); return false }
func (e wildError) Unwrap() error        { call(e.unwrap); return nil }
func (e wildError) LogValue() slog.Value { call(e.text); return slog.Value{} }

func call(f func()) {
	if f != nil {
		f()
	}
}

// endless panics with itself when it is asked for its text.
type endless struct{}

func (e endless) Error() string { panic(e) }

// wildLog is a handler of logs that fails in each method.
type wildLog struct{ fail func() }

func (l wildLog) Enabled(context.Context, slog.Level) bool  { l.fail(); return true }
func (l wildLog) Handle(context.Context, slog.Record) error { l.fail(); return nil }
func (l wildLog) WithAttrs([]slog.Attr) slog.Handler        { l.fail(); return l }
func (l wildLog) WithGroup(string) slog.Handler             { l.fail(); return l }

// wildTypes is a handler that cannot say what it knows.
type wildTypes struct {
	HandlerFunc
	fail func()
}

func (h wildTypes) Patterns() []string { h.fail(); return nil }

// supplied is everything that a server calls of its application, failing by fail.
// Jobs of type "wild" meet it; hooks and logs fail for all.
var supplied = map[string]func(cfg *Config, fail func()) (wild HandlerFunc){
	"handler": func(_ *Config, fail func()) HandlerFunc {
		return func(context.Context, *Job) error { fail(); return nil }
	},
	"error text": func(_ *Config, fail func()) HandlerFunc { return gives(wildError{text: fail}) },
	"error Is":   func(_ *Config, fail func()) HandlerFunc { return gives(wildError{is: fail}) },
	"error As":   func(_ *Config, fail func()) HandlerFunc { return gives(wildError{as: fail}) },
	"error Unwrap": func(_ *Config, fail func()) HandlerFunc {
		return gives(fmt.Errorf("outer: %w", wildError{unwrap: fail}))
	},
	"panic value": func(_ *Config, fail func()) HandlerFunc {
		return func(context.Context, *Job) error { panic(wildError{text: fail}) }
	},
	"RetryAfter of": func(_ *Config, fail func()) HandlerFunc { return gives(RetryAfter(time.Second, wildError{text: fail})) },
	"Cancel of":     func(_ *Config, fail func()) HandlerFunc { return gives(Cancel(wildError{text: fail})) },
	"middleware": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Middleware = []Middleware{func(next Handler) Handler {
			return HandlerFunc(func(ctx context.Context, j *Job) error {
				if j.Type() == "wild" {
					fail()
				}
				return next.ProcessJob(ctx, j)
			})
		}}
		return gives(nil)
	},
	"middleware that asks EndingOf": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Middleware = []Middleware{func(next Handler) Handler {
			return HandlerFunc(func(ctx context.Context, j *Job) error {
				err := next.ProcessJob(ctx, j)
				if e := EndingOf(ctx, j, err); err != nil && (e.Outcome != EndedRetried || e.Class != ClassRetryable) {
					panic(fmt.Sprintf("EndingOf says %+v", e))
				}
				return err
			})
		}}
		return gives(wildError{is: fail})
	},
	"Classify": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Classify = func(error, *Job) Classification { fail(); return Classification{} }
		return gives(errors.New("no"))
	},
	"Classify's error": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Classify = func(error, *Job) Classification { return Classification{As: wildError{as: fail}} }
		return gives(errors.New("no"))
	},
	"RetryPolicy": func(cfg *Config, fail func()) HandlerFunc {
		cfg.RetryPolicy = func(int, error, *Job) time.Duration { fail(); return 0 }
		return gives(errors.New("no"))
	},
	"RetryPolicies": func(cfg *Config, fail func()) HandlerFunc {
		cfg.RetryPolicies = map[string]RetryFunc{"wild": func(int, error, *Job) time.Duration { fail(); return 0 }}
		return gives(errors.New("no"))
	},
	"log": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Logger = slog.New(wildLog{fail})
		return gives(SkipRetry)
	},
	"hook Claim": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Hooks.Claim = func(ClaimEvent) { fail() }
		return gives(nil)
	},
	"hook Settle": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Hooks.Settle = func(SettleEvent) { fail() }
		return gives(nil)
	},
	"hook Renew": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Hooks.Renew = func(RenewEvent) { fail() }
		return gives(nil)
	},
	"hook Reclaim": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Hooks.Reclaim = func(ReclaimEvent) { fail() }
		return gives(nil)
	},
	"hook Worker": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Hooks.Worker = func(WorkerEvent) { fail() }
		return gives(nil)
	},
	"hooks Stuck and Unstuck": func(cfg *Config, fail func()) HandlerFunc {
		cfg.Hooks.Stuck, cfg.Hooks.Unstuck = func(StuckEvent) { fail() }, func(StuckEvent) { fail() }
		return func(context.Context, *Job) error { time.Sleep(90 * time.Second); return nil }
	},
}

func gives(err error) HandlerFunc { return func(context.Context, *Job) error { return err } }

func TestServer_SurvivesAllThatAnApplicationSupplies(t *testing.T) {
	t.Parallel()
	ways := map[string]func(){
		"panics":                  func() { panic("wild") },
		"panics with a nil error": func() { panic((*nilError)(nil)) },
		"panics for ever":         func() { panic(endless{}) },
		"ends its goroutine":      runtime.Goexit,
	}
	for what, arrange := range supplied {
		for way, fail := range ways {
			t.Run(what+" "+way, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := newStore()
					cfg := Config{Timeout: time.Minute, StuckGrace: 10 * time.Second}
					wild := arrange(&cfg, fail)
					s := serve(t, b, cfg, func(ctx context.Context, j *Job) error {
						if j.Type() == "wild" {
							return wild(ctx, j)
						}
						return nil
					})
					// Somebody else's worker dies, so that there is something to reclaim.
					expired(t, b)
					add(t, b, DefaultQueue, "wild", 1, func(j *broker.NewJob) { j.Body.MaxRetries = 1 })
					pass(2 * time.Minute)
					add(t, b, DefaultQueue, "tame", 20)
					pass(time.Minute)
					if n := count(t, b, DefaultQueue, StateCompleted); n < 20 {
						t.Errorf("%d jobs completed, want the 20 tame ones at least", n)
					}
					if j := stored(t, b, DefaultQueue, "wild-0"); j.State == StateActive {
						t.Errorf("the wild job is %v, its run never ended", j.State)
					}
					if err := s.Ready(); err != nil {
						t.Errorf("the server is not ready: %v", err)
					}
				})
			})
		}
	}
}

// expired leaves a job under the lease of a worker that is gone.
func expired(t *testing.T, b broker.Broker) {
	t.Helper()
	ctx := t.Context()
	if _, err := b.Renew(ctx, broker.RenewRequest{Worker: "gone", Queues: []string{DefaultQueue}, Lease: time.Second, Register: true,
		Info: broker.WorkerInfo{ID: "gone"}}); err != nil {
		t.Fatal(err)
	}
}

func TestServer_RegistersWithoutTypesWhenItsHandlerCannotListThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, fail := range []func(){func() { panic("wild") }, runtime.Goexit} {
			b := newStore()
			add(t, b, DefaultQueue, "a", 1)
			s, err := NewServer(b, Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start(context.Background(), wildTypes{gives(nil), fail}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			expect(t, b, DefaultQueue, "a-0", StateCompleted)
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestServer_TypedNilErrorIsAFailureThatSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		serve(t, b, Config{}, func(_ context.Context, j *Job) error {
			if j.Type() == "kind" {
				return (*kindError)(nil)
			}
			return (*nilError)(nil)
		})
		add(t, b, DefaultQueue, "nil", 1)
		add(t, b, DefaultQueue, "kind", 1)
		synctest.Wait()
		for _, typ := range []string{"nil", "kind"} {
			f := expect(t, b, DefaultQueue, typ+"-0", StateRetry).Errors.Last()
			if want := "a nil *jobs." + typ + "Error in an interface, which is not nil"; !strings.Contains(f.Message, want) ||
				f.Class != ClassRetryable {
				t.Errorf("the job's history says %q, class %q; want a text with %q", f.Message, f.Class, want)
			}
		}
	})
}

func TestServer_TellsOfAHookThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log testLog
		after := 0
		serve(t, newStore(), Config{Logger: log.logger(), Hooks: JoinHooks(
			Hooks{Renew: func(RenewEvent) { panic("lost") }},
			Hooks{Renew: func(RenewEvent) { after++ }},
		)}, gives(nil))
		pass(time.Minute)
		if after < 10 {
			t.Errorf("the hook behind the one that panics was called %d times in a minute", after)
		}
		lines := log.lines("a hook failed")
		if len(lines) < 2 || len(lines) > 7 || !strings.Contains(lines[0], "hook=Renew") || !strings.Contains(lines[0], "panic: lost") ||
			!strings.Contains(lines[0], "supplied_test.go") {
			t.Errorf("a minute of a hook that panics got %d lines: %q", len(lines), lines)
		}
	})
}

func TestServer_LogsFailingJobsNowAndThen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var log testLog
		mux := NewServeMux()
		mux.HandleFunc("fails", func(context.Context, *Job) error { return errors.New(strings.Repeat("x", 5000)) })
		mux.HandleFunc("panics", func(context.Context, *Job) error { panic("lost") })
		serve(t, b, Config{Logger: log.logger(), RetryPolicy: Constant(time.Hour)}, mux.ProcessJob)
		for _, typ := range []string{"fails", "panics", "unknown"} {
			add(t, b, DefaultQueue, typ, 50, func(j *broker.NewJob) { j.Body.Payload = []byte("secret payload") })
		}
		pass(time.Minute)
		for typ, want := range map[string]string{"fails": "class=retryable", "panics": "panic: lost", "unknown": "no handler is registered"} {
			var lines []string
			for _, line := range log.lines("level=WARN") {
				if strings.Contains(line, "type="+typ+" ") {
					lines = append(lines, line)
				}
			}
			if len(lines) < 1 || len(lines) > 7 {
				t.Fatalf("50 jobs of type %s got %d lines in a minute", typ, len(lines))
			}
			for _, part := range []string{want, "queue=default", "id=" + typ + "-", "attempt=0", "next="} {
				if !strings.Contains(lines[0], part) {
					t.Errorf("the line lacks %q: %s", part, lines[0])
				}
			}
			if len(lines[0]) > 1500 {
				t.Errorf("the line has %d bytes", len(lines[0]))
			}
		}
		if left := log.lines(`about="type fails" left_out=49`); len(left) != 1 {
			t.Errorf("what was left out is told in %d lines, want one:\n%s", len(left), log.String())
		}
		if strings.Contains(log.String(), "secret") {
			t.Error("a payload was logged")
		}
	})
}
