package storedtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/journal"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/middleware"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// records holds all records of a store in memory.
type records map[journal.Kind]map[string][]byte

func (r records) Load(read func(journal.Record) error) error {
	for k := journal.Kind(1); k <= journal.Kinds; k++ {
		for key, value := range r[k] {
			if err := read(journal.Record{Kind: k, Key: []byte(key), Value: value}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r records) Append(changed []journal.Record) {
	for _, c := range changed {
		if r[c.Kind] == nil {
			r[c.Kind] = make(map[string][]byte)
		}
		if r[c.Kind][string(c.Key)] = c.Value; c.Value == nil {
			delete(r[c.Kind], string(c.Key))
		}
	}
}

// text returns the jobs and marks of schedules, workflows, markers and history, but not workers, which have ended.
func (r records) text() string {
	var b strings.Builder
	for k := journal.Kind(1); k <= journal.Kinds; k++ {
		if k == journal.Workers || len(r[k]) == 0 {
			continue
		}
		fmt.Fprintln(&b, k)
		var lines []string
		for key, value := range r[k] {
			lines = append(lines, fmt.Sprintf("\t%q %q\n", key, value))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}

var changing = regexp.MustCompile(`[0-9a-f]{20,}|\.[a-z0-9]{15}/|[0-9]+(-[0-9][0-9]-[0-9:TZ-]+)?`)

// form returns the names and the fields of JSON, without what differs from run to run.
func (r records) form() string {
	var lines []string
	for _, k := range []journal.Kind{journal.Marks, journal.Bodies} {
		for key, value := range r[k] {
			line := fmt.Sprintf("%v %q", k, changing.ReplaceAllString(key, "…"))
			var document any
			if _, text, ok := bytes.Cut(value, []byte("{")); ok {
				if err := json.NewDecoder(io.MultiReader(strings.NewReader("{"), bytes.NewReader(text))).Decode(&document); err == nil {
					fields("", document, func(field string) { lines = append(lines, line+" "+field) })
				}
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}

// fields calls found with each field of a document and the type of its value.
func fields(path string, of any, found func(string)) {
	switch of := of.(type) {
	case map[string]any:
		for name, value := range of {
			fields(path+"."+name, value, found)
		}
	case []any:
		for _, value := range of {
			fields(path+"[]", value, found)
		}
	default:
		found(fmt.Sprintf("%s %T", path, of))
	}
}

// program is an application on a store in memory, in virtual time.
type program struct {
	t         *testing.T
	b         broker.Broker
	client    *jobs.Client
	schedules *schedule.Schedules
	server    *jobs.Server

	mu  sync.Mutex
	ran map[string]int // number of runs, by purpose
}

// newProgram starts the application.
func newProgram(t *testing.T, r records) *program {
	t.Helper()
	store, err := membroker.OpenJournal(r)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	p := &program{t: t, b: store.Open(), ran: make(map[string]int)}
	p.client = jobs.NewClient(p.b, jobs.ClientConfig{})
	p.schedules = schedule.New(p.b, "stored")
	p.server, err = jobs.NewServer(p.b, jobs.Config{Logger: quiet, Concurrency: 1, Extensions: []jobs.Extension{
		p.schedules.Extension(p.client, schedule.ExtensionConfig{Logger: quiet}),
		workflow.Extension(p.client, workflow.ExtensionConfig{Logger: quiet}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux := jobs.NewServeMux()
	mux.Use(middleware.Dedup(middleware.DedupConfig{Marks: p.b, Logger: quiet, Keep: 30 * 24 * time.Hour}))
	mux.HandleFunc("*", func(_ context.Context, j *jobs.Job) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ran[j.Type()]++
		return nil
	})
	if err := p.server.Start(context.Background(), mux); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *program) stop() {
	p.t.Helper()
	if err := p.server.Shutdown(context.Background()); err != nil {
		p.t.Error(err)
	}
	p.client.Close()
	p.b.Close()
}

func (p *program) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) pay() {
	_, err := p.client.Enqueue(context.Background(), jobs.NewTask("pay", nil, jobs.WithIdempotencyKey("order 7")))
	p.check(err)
}

// stopped is the time from the start to the stop of the program that wrote the golden file.
const stopped = 150 * time.Minute

func TestStored_SchedulesWorkflowsMarkersAndHistoryOfEachReleaseGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := make(records)
		p := newProgram(t, r)
		ctx := context.Background()
		_, err := p.schedules.Put(ctx, "hourly", schedule.Cron("15 * * * *", "Europe/Berlin"), jobs.NewTask("hourly", []byte("{}")),
			schedule.WithMisfire(schedule.RunUpTo(10, 0)), schedule.WithJitter(0))
		p.check(err)
		_, err = p.schedules.Put(ctx, "waits", schedule.Every(time.Hour), jobs.NewTask("paused", nil), schedule.WithPaused("somebody"),
			schedule.WithOverlap(schedule.OverlapSkip), schedule.WithExpiry(time.Hour))
		p.check(err)
		p.check(workflow.Start(ctx, p.client, workflow.New("order").Add(workflow.Chain(
			workflow.Node{Name: "reserve", Task: jobs.NewTask("reserve", nil), Compensate: jobs.NewTask("release", nil)},
			workflow.Node{Name: "wait", Delay: 5 * time.Hour},
			workflow.Node{Name: "ship", Task: jobs.NewTask("ship", []byte("parcel"))}))))
		p.pay()
		time.Sleep(stopped)
		p.stop()
		if got := fmt.Sprint(p.ran); got != "map[hourly:3 pay:1 reserve:1]" {
			t.Errorf("before the golden file is written, there ran %v", got)
		}
		Golden(t, "current-form", r.form())
		if *update {
			Golden(t, "current-program", r.text()) // times and IDs differ each time
		}
	})
	eachFile(t, "*-program.golden", func(t *testing.T, dump string) {
		synctest.Test(t, func(t *testing.T) { goesOn(t, dump) })
	})
}

// goesOn starts the program on what an earlier one stored, half an hour later.
func goesOn(t *testing.T, dump string) {
	time.Sleep(3 * time.Hour) // from the start of the bubble's clock
	p := newProgram(t, parse(t, dump))
	defer p.stop()
	ctx := context.Background()
	history, err := inspect.New(p.b).History(ctx, "default", 3*time.Hour)
	p.check(err)
	if len(history) < 3 || history[0].Totals.Enqueued == 0 {
		t.Errorf("the history is %+v; want points of before", history)
	}
	p.pay() // once more
	time.Sleep(10 * time.Minute)
	info, err := p.schedules.Get(ctx, "waits")
	p.check(err)
	if info.Status != schedule.StatusPaused {
		t.Errorf("a paused schedule is %+v", info)
	}
	p.check(p.schedules.Resume(ctx, "waits"))
	wf, err := workflow.Get(ctx, p.client, "order")
	p.check(err)
	if wf.State != workflow.StateRunning {
		t.Errorf("a workflow that waits until 05:00 is %v at 03:10", wf.State)
	}
	time.Sleep(2*time.Hour + 40*time.Minute)
	p.mu.Lock()
	defer p.mu.Unlock()
	// The ticks until 02:15 and the payment were before the restart.
	if got := fmt.Sprint(p.ran); got != "map[hourly:3 paused:2 ship:1]" {
		t.Errorf("after the restart there ran %v", got)
	}
}

// eachFile calls read with each golden file that matches a pattern, one for each release.
func eachFile(t *testing.T, pattern string, read func(t *testing.T, dump string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".golden"), func(t *testing.T) {
			dump, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			read(t, string(dump))
		})
	}
}

func parse(t *testing.T, dump string) records {
	t.Helper()
	kinds := make(map[string]journal.Kind)
	for k := journal.Kind(1); k <= journal.Kinds; k++ {
		kinds[k.String()] = k
	}
	r := make(records)
	var kind journal.Kind
	for text := range strings.Lines(dump) {
		rest := strings.TrimSpace(text)
		if text[0] != '\t' {
			kind = kinds[rest]
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatal(err)
		}
		key, _ := strconv.Unquote(quoted)
		value, err := strconv.Unquote(strings.TrimSpace(rest[len(quoted):]))
		if err != nil {
			t.Fatal(err)
		}
		r.Append([]journal.Record{{Kind: kind, Key: []byte(key), Value: []byte(value)}})
	}
	return r
}
