package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_LogsTheNextRunOfAJobThatFailed(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]int{slog.LevelInfo: 1, slog.LevelDebug: 4} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now().UTC()
			var out bytes.Buffer
			b := membroker.New()
			defer b.Close()
			s, err := NewServer(b, Config{RetryPolicy: Constant(2 * time.Second),
				Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start(context.Background(), HandlerFunc(func(context.Context, *Job) error { return errors.New("busy") })); err != nil {
				t.Fatal(err)
			}
			client := NewClient(b, ClientConfig{})
			defer client.Close()
			if _, err := client.Enqueue(t.Context(), NewTask("mail", nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(7 * time.Second) // it fails at 0, 2, 4 and 6 s
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			next := regexp.MustCompile(`job failed and runs again".* next=(\S+)`).FindAllStringSubmatch(out.String(), -1)
			if len(next) != want {
				t.Fatalf("with level %v there are %d lines about four failures, want %d:\n%s", level, len(next), want, &out)
			}
			for i, m := range next {
				if at := began.Add(time.Duration(i+1) * 2 * time.Second).Format("2006-01-02T15:04:05.000Z"); m[1] != at {
					t.Errorf("line %d says %s is next, want %s", i, m[1], at)
				}
			}
		})
	}
}

func TestServer_LogsThatItCannotLookForDeadServersWithoutTheStoresTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := broker.Wrap(newStore(), func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
			if call.Method == "Ping" {
				return &broker.Error{Err: broker.ErrUnavailable, Hint: "no time for you"}
			}
			return next(ctx)
		})
		defer b.Close()
		s, err := NewServer(unsure(b), Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(context.Background(), HandlerFunc(func(context.Context, *Job) error { return nil })); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), "search for jobs of dead servers failed"); n == 0 || n > 5 {
			t.Errorf("%d lines say in a minute that the search fails, want a few:\n%s", n, &out)
		}
	})
}
