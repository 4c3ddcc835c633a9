package schedule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// A program's definitions are checked before its server starts.
func TestExtension_RefusesDefinitionsThatCannotBe(t *testing.T) {
	inWorld(t, func(w *world) {
		client := jobs.NewClient(w.store, jobs.ClientConfig{})
		task := jobs.NewTask("t", nil)
		for name, c := range map[string]struct {
			definitions []Definition
			says        string
		}{
			"an unknown zone": {[]Definition{{ID: "z", Spec: Cron("@daily", "Mars/Base"), Task: task}}, "zone"},
			"a line of nothing": {[]Definition{{ID: "a", Spec: Every(time.Hour), Task: task},
				{ID: "z", Spec: Cron("0 0 31 2 *", ""), Task: task}}, "never fires"},
			"one ID twice": {[]Definition{{ID: "z", Spec: Every(time.Hour), Task: task}, {ID: "z", Spec: Every(time.Minute), Task: task}},
				"two definitions"},
		} {
			x := w.schedules.Extension(client, ExtensionConfig{Definitions: c.definitions})
			_, err := jobs.NewServer(w.store, jobs.Config{Extensions: []jobs.Extension{x}})
			if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "z") {
				t.Errorf("%s: NewServer says %v", name, err)
			}
		}
		if _, err := jobs.NewServer(w.store, jobs.Config{Extensions: []jobs.Extension{New(nil, "x").Extension(client,
			ExtensionConfig{})}}); err == nil {
			t.Error("schedules without a broker are accepted")
		}
	})
}

// A client of a transaction would enqueue ticks into it long after its end.
func TestExtension_RefusesAClientOfATransaction(t *testing.T) {
	inWorld(t, func(w *world) {
		inTx := jobs.NewClient(w.store, jobs.ClientConfig{}).In(w.store)
		for name, client := range map[string]*jobs.Client{"nil": nil, "of a transaction": inTx} {
			func() {
				defer func() {
					if got := fmt.Sprint(recover()); !strings.Contains(got, "the client is nil, or is one of a transaction") {
						t.Errorf("a client that is %s: Extension says %v", name, got)
					}
				}()
				w.schedules.Extension(client, ExtensionConfig{})
			}()
		}
	})
}

type brokenLog struct{ slog.Handler }

func (brokenLog) Handle(context.Context, slog.Record) error { panic("no line") }

// The extension logs in a goroutine of its own, where a panic would end the process.
func TestExtension_ALoggerThatPanicsLosesTheLineAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(time.Hour))
		client := jobs.NewClient(w.store, jobs.ClientConfig{})
		x := New(w.store, "other").Extension(client, ExtensionConfig{Logger: slog.New(brokenLog{slog.NewTextHandler(io.Discard, nil)}),
			Definitions: []Definition{{ID: "s", Spec: Every(time.Hour), Task: jobs.NewTask("t", nil)}}}) // refused, and logged
		server, err := jobs.NewServer(w.store, jobs.Config{Extensions: []jobs.Extension{x}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(w.Context(), jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil })); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if err := server.Shutdown(w.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A server that starts revives dead schedules and puts missing ones.
func TestExtension_RevivesSchedules(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("dead", Every(time.Hour))
		w.die("dead")
		if info := w.info("dead"); !strings.Contains(info.Error, "dead") {
			t.Errorf("a dead schedule has the error %q", info.Error)
		}
		w.serve(w.store, jobs.Config{}, ExtensionConfig{Definitions: []Definition{
			{ID: "missing", Spec: Every(time.Hour), Task: jobs.NewTask("task", nil)}}})
		pass(time.Hour + time.Second)
		if w.ran["dead@2000-01-01T01:00:00Z"] != 1 || w.ran["missing@2000-01-01T01:00:00Z"] != 1 {
			t.Errorf("ran %v, want a tick of each", w.ran)
		}
	})
}

func TestExtension_SaysThatAScheduleWasNotRevived(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("dead", Every(time.Hour))
		w.die("dead")
		var log strings.Builder
		refusing := faulty.Wrap(w.store, faulty.Plan{{Method: "Operate", Fault: faulty.Fault{Before: broker.ErrNewerForm}}})
		x := &runner{Schedules: New(refusing, "test"), log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := x.revive(w.Context()); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); !strings.Contains(got, "not revived") || !strings.Contains(got, "schedule=dead") {
			t.Errorf("the log says %q", got)
		}
	})
}
