package workflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// world is a store, and a record of what its servers ran.
type world struct {
	*testing.T
	store  broker.Broker
	client *jobs.Client
	lease  time.Duration

	mu       sync.Mutex
	order    []string                    // the names of nodes, in the order in which they began
	runs     map[string]int              // by node: how often it began
	handlers map[string]jobs.HandlerFunc // by node; others return at once
}

func newWorld(t *testing.T, b broker.Broker) *world {
	client := jobs.NewClient(b, jobs.ClientConfig{})
	t.Cleanup(func() { client.Close() })
	return &world{T: t, store: b, client: client, runs: make(map[string]int), handlers: make(map[string]jobs.HandlerFunc)}
}

// inWorld runs a test in virtual time, on a store of its own.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		t.Cleanup(func() { b.Close() })
		f(newWorld(t, b))
	})
}

// on sets a node's handler.
func (w *world) on(node string, f func(context.Context, *jobs.Job) error) {
	w.mu.Lock()
	w.handlers[node] = f
	w.mu.Unlock()
}

// fails makes the handlers of nodes fail for good.
func (w *world) fails(nodes ...string) {
	for _, node := range nodes {
		w.on(node, func(context.Context, *jobs.Job) error { return fmt.Errorf("%w: %s is broken", jobs.SkipRetry, node) })
	}
}

func (w *world) handle(ctx context.Context, j *jobs.Job) error {
	node := j.Header(HeaderNode)
	w.mu.Lock()
	w.order = append(w.order, node)
	w.runs[node]++
	h := w.handlers[node]
	w.mu.Unlock()
	if h != nil {
		return h(ctx, j)
	}
	return nil
}

// serve starts a server on b, which is stopped after the test.
func (w *world) serve(b broker.Broker, cfg jobs.Config) *jobs.Server {
	w.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if cfg.Lease == 0 {
		cfg.Lease = w.lease
	}
	client := jobs.NewClient(b, jobs.ClientConfig{})
	cfg.Extensions = []jobs.Extension{Extension(client, ExtensionConfig{Logger: cfg.Logger})}
	s, err := jobs.NewServer(b, cfg)
	if err == nil {
		err = s.Start(context.Background(), jobs.HandlerFunc(w.handle))
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		s.Shutdown(ctx)
		client.Close()
	})
	return s
}

func (w *world) up() *jobs.Server {
	w.Helper()
	return w.serve(w.store, jobs.Config{})
}

func (w *world) start(wf *Workflow) {
	w.Helper()
	if err := Start(w.Context(), w.client, wf); err != nil {
		w.Fatal(err)
	}
}

// run starts a workflow, waits for its end and checks its state.
func (w *world) run(wf *Workflow, want State) Info {
	w.Helper()
	w.start(wf)
	return w.ends(wf.ID, want)
}

// ends waits for the end of a workflow and checks its state.
func (w *world) ends(id string, want State) Info {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 24*time.Hour)
	defer cancel()
	_, err := Wait(ctx, w.client, id)
	info := w.info(id)
	if info.State != want {
		w.Fatalf("%s is %s (%s, Wait says %v), want %s; %s", id, info.State, info.Cause, err, want, states(info))
	}
	if good := want == StateCompleted; good != (err == nil) || want == StateFailed != errors.Is(err, jobs.ErrDead) {
		w.Errorf("%s is %s, and Wait says %v", id, info.State, err)
	}
	return info
}

func (w *world) info(id string) Info {
	w.Helper()
	info, err := Get(w.Context(), w.client, id)
	if err != nil {
		w.Fatal(err)
	}
	return info
}

// states returns the states of the nodes, sorted by name.
func states(info Info) string {
	var all []string
	for _, n := range info.Nodes {
		all = append(all, n.Name+" "+string(n.State))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// began returns the names of the nodes that began, in order.
func (w *world) began() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.order, " ")
}

// once checks that each of the nodes began once, and that no other node began.
func (w *world) once(nodes ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, node := range nodes {
		if w.runs[node] != 1 {
			w.Errorf("node %s ran %d times, want once; all: %v", node, w.runs[node], w.order)
		}
	}
	if len(w.runs) != len(nodes) {
		w.Errorf("the nodes %v ran, want %v", w.order, nodes)
	}
}

// left returns the jobs of a queue that have not ended.
func (w *world) left(queue string) (ids []string) {
	w.Helper()
	for _, state := range broker.States() {
		if state.Final() {
			continue
		}
		page, err := w.store.Find(w.Context(), broker.Query{Queue: queue, State: state, Limit: 1000})
		if err != nil {
			w.Fatal(err)
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID+" "+j.State.String())
		}
	}
	return ids
}

func task(opts ...jobs.Option) *jobs.Task { return jobs.NewTask("task", []byte(`"payload"`), opts...) }

func undoable(name string, after ...string) Node {
	return Node{Name: name, Task: task(), After: after, Compensate: task()}
}

func node(name string, after ...string) Node { return Node{Name: name, Task: task(), After: after} }

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
