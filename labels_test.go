package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/labels"
)

// enqueued returns the queue that options put a task into.
func enqueued(t *testing.T, c *Client, opts ...Option) string {
	t.Helper()
	info, err := c.Enqueue(t.Context(), NewTask("a", nil), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return info.Queue
}

func TestServer_TakesTheJobsWhoseLabelsItHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		c := NewClient(b, ClientConfig{})
		var mu sync.Mutex
		ran := make(map[string][]string) // queues, by server
		for name, cfg := range map[string]Config{
			"none":      {Queues: map[string]int{"images": 1}},
			"gpu":       {Queues: map[string]int{"images": 1}, Labels: []string{"gpu"}},
			"both":      {Queues: map[string]int{"images": 1, "mail": 1}, Labels: []string{"ssd", "gpu"}},
			"dedicated": {Queues: map[string]int{"images+gpu": 1}},
		} {
			serve(t, b, cfg, func(_ context.Context, j *Job) error {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				if !slices.Contains(ran[name], j.Queue()) {
					ran[name] = append(ran[name], j.Queue())
				}
				return nil
			})
		}
		for range 500 {
			for _, required := range [][]string{nil, {"gpu"}, {"ssd"}, {"gpu", "ssd"}, {"eu"}} {
				enqueued(t, c, WithQueue("images"), WithLabels(required...))
			}
			enqueued(t, c, WithQueue("mail"), WithLabels("gpu"))
		}
		pass(time.Hour)
		want := map[string][]string{
			"none": {"images"}, "gpu": {"images", "images+gpu"}, "dedicated": {"images+gpu"},
			"both": {"images", "images+gpu", "images+gpu+ssd", "images+ssd", "mail+gpu"},
		}
		for name, queues := range want {
			if got := slices.Sorted(slices.Values(ran[name])); !slices.Equal(got, queues) {
				t.Errorf("the server %s ran jobs of %q, want %q", name, got, queues)
			}
		}
		if n := count(t, b, "images+eu", StatePending); n != 500 {
			t.Errorf("%d of 500 jobs wait for a server with the label eu", n)
		}
	})
}

func TestWithLabels_TheLastOneCountsAndAddsToTheQueue(t *testing.T) {
	t.Parallel()
	c := NewClient(newStore(), ClientConfig{Defaults: []Option{WithLabels("eu")}})
	for _, s := range []struct {
		options []Option
		want    string
	}{
		{nil, "default+eu"},
		{[]Option{WithLabels()}, "default"},
		{[]Option{WithLabels("ssd", "gpu", "ssd"), WithQueue("images")}, "images+gpu+ssd"},
		{[]Option{WithQueue("images+gpu")}, "images+eu+gpu"},
		{[]Option{WithQueue("images+gpu"), WithLabels()}, "images+gpu"},
		{[]Option{WithLabelShare("canary", 100)}, "default+canary+eu"},
		{[]Option{WithLabelShare("eu", 100)}, "default+eu"},
		{[]Option{WithLabelShare("canary", 100), WithLabelShare("canary", 0)}, "default+eu"},
	} {
		if got := enqueued(t, c, s.options...); got != s.want {
			t.Errorf("the job is in %s, want %s", got, s.want)
		}
	}
}

func TestWithLabels_RefusesByName(t *testing.T) {
	t.Parallel()
	b := newStore()
	c := NewClient(b, ClientConfig{})
	for _, s := range []struct {
		option Option
		field  string
		says   string
	}{
		{WithLabels("g p u"), "labels", `"g p u"`},
		{WithLabels(""), "labels", `""`},
		{WithLabels("a", "b", "c", "d", "e"), "labels", "limit is 4"},
		{WithQueue("c++"), "queue", "plus sign"},
		{WithQueue("images+ssd+gpu"), "queue", "write images+gpu+ssd"},
		{WithLabelShare("canary", 101), "label share", "101 percent"},
		{WithLabelShare("canary", -1), "label share", "-1 percent"},
		{WithLabelShare("canary 10%", 1), "label share", `"canary 10%"`},
		{joined(WithQueue(strings.Repeat("q", 250)), WithLabels("canary")), "queue", "255"},
		{joined(WithQueue("@schedules"), WithLabels("gpu")), "queue", "@"},
	} {
		_, err := c.Enqueue(t.Context(), NewTask("a", nil), s.option)
		var e *broker.Error
		if !errors.As(err, &e) || !errors.Is(err, ErrInvalid) || e.Field != s.field || !strings.Contains(err.Error(), s.says) {
			t.Errorf("the error is %v; want it to name %s and say %s", err, s.field, s.says)
		}
	}
	change := func(next EnqueueFunc) EnqueueFunc {
		return func(ctx context.Context, batch []*Outgoing) {
			for _, o := range batch {
				o.Queue = "images+ssd+gpu"
			}
			next(ctx, batch)
		}
	}
	c = NewClient(b, ClientConfig{Middleware: []EnqueueMiddleware{change}})
	if _, err := c.Enqueue(t.Context(), NewTask("a", nil)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "images+gpu+ssd") {
		t.Errorf("a middleware chose a queue that no server serves, the error is %v", err)
	}
	reply, err := b.Queues(t.Context(), broker.QueuesRequest{})
	if err != nil || len(reply.Queues) > 0 {
		t.Errorf("refused tasks left %d queues, error %v", len(reply.Queues), err)
	}
}

// joined is several options as one.
func joined(all ...Option) Option {
	return optionFunc(func(c *enqueueConfig) {
		for _, o := range all {
			o.apply(c)
		}
	})
}

func TestWithLabelShare_IsDecidedByTheKeyAndGrows(t *testing.T) {
	t.Parallel()
	takes := func(percent int, opts ...Option) bool {
		t.Helper()
		job, err := NewTask("a", []byte("payload")).Draft(append(opts, WithLabelShare("canary", percent))...)
		if err != nil {
			t.Fatal(err)
		}
		if job.Queue != DefaultQueue && job.Queue != "default+canary" {
			t.Fatalf("the job is in %s", job.Queue)
		}
		return job.Queue != DefaultQueue
	}
	const keys = 3000
	got := make(map[int]int) // by percent
	for i := range keys {
		key := fmt.Sprint("tenant-", i)
		before := false
		for _, percent := range []int{0, 1, 10, 50, 99, 100} {
			now := takes(percent, WithPartitionKey(key))
			if before && !now {
				t.Fatalf("%s is among fewer percent and not among %d", key, percent)
			}
			if before = now; now {
				got[percent]++
			}
		}
		if takes(50, WithPartitionKey(key), WithID("1")) != takes(50, WithPartitionKey(key), WithUniqueKey("x"), WithQueue(DefaultQueue)) {
			t.Fatalf("two jobs of %s are on different sides", key)
		}
		if takes(50, WithUniqueKey(key)) != takes(50, WithUniqueKey(key), WithID("1")) {
			t.Fatalf("two jobs with the unique key %s are on different sides", key)
		}
	}
	for percent, n := range got {
		if want := keys * percent / 100; n < want*80/100-10 || n > want*120/100+10 {
			t.Errorf("%d percent of %d keys are %d", percent, keys, n)
		}
	}
	if got[0] != 0 || got[100] != keys {
		t.Errorf("no percent are %d keys and all percent are %d of %d", got[0], got[100], keys)
	}
	// These sides are a promise: another version of a program must make the same choice.
	sides := ""
	for i := range 20 {
		if takes(50, WithPartitionKey(fmt.Sprint(i))) {
			sides += fmt.Sprint(i, " ")
		}
	}
	if sides != "1 3 4 12 16 18 19 " {
		t.Errorf("of 20 keys the share of half has %s", sides)
	}
}

func TestWithLabelShare_JobsWithoutAKeyAreChosenByID(t *testing.T) {
	t.Parallel()
	c := NewClient(newStore(), ClientConfig{})
	tasks := slices.Repeat([]*Task{NewTask("a", nil)}, 1000)
	receipts, err := c.EnqueueMany(t.Context(), tasks, WithLabelShare("canary", 30))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range receipts {
		if r.Queue == "default+canary" {
			n++
		}
	}
	if n < 220 || n > 380 {
		t.Errorf("%d of 1000 jobs require the label, want about 300", n)
	}
	_, err = NewTask("a", nil).Draft(WithLabelShare("canary", 30))
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "needs a key") {
		t.Errorf("a draft without an ID: %v", err)
	}
	if job, err := NewTask("a", nil).Draft(WithLabelShare("canary", 0)); err != nil || job.Queue != DefaultQueue {
		t.Errorf("a draft that undoes the share is in %q, error %v", job.Queue, err)
	}
}

func TestConfig_LabelsAddQueuesWithTheWeightAndLimitOfTheirs(t *testing.T) {
	t.Parallel()
	cfg, err := Config{
		Queues:           map[string]int{"images": 5, "mail": 2, "mail+gpu": 7, "audio+gpu": 3},
		QueueConcurrency: map[string]int{"images": 4, "images+gpu": 1, "mail+ssd": 6},
		Labels:           []string{"ssd", "gpu"},
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	queues := map[string]int{"images": 5, "images+gpu": 5, "images+ssd": 5, "images+gpu+ssd": 5,
		"mail": 2, "mail+gpu": 7, "mail+ssd": 2, "mail+gpu+ssd": 2, "audio+gpu": 3}
	limits := map[string]int{"images": 4, "images+gpu": 1, "images+ssd": 4, "images+gpu+ssd": 4, "mail+ssd": 6}
	if !maps.Equal(cfg.Queues, queues) || !maps.Equal(cfg.QueueConcurrency, limits) {
		t.Errorf("the queues are %v with the limits %v; want %v and %v", cfg.Queues, cfg.QueueConcurrency, queues, limits)
	}
	four := []string{"a", "b", "c", "d"}
	if cfg, err := (Config{Labels: four}).withDefaults(); err != nil || len(cfg.Queues) != 16 {
		t.Errorf("with %d labels a server serves %d queues, error %v; want 16", len(four), len(cfg.Queues), err)
	}
}

func TestConfig_DoesNotChangeTheMapsOfTheCaller(t *testing.T) {
	t.Parallel()
	queues, limits := map[string]int{"images": 5}, map[string]int{"images": 1}
	if _, err := NewServer(newStore(), Config{Queues: queues, QueueConcurrency: limits, Labels: []string{"gpu"}}); err != nil {
		t.Fatal(err)
	}
	if len(queues) != 1 || len(limits) != 1 {
		t.Errorf("they are %v and %v now", queues, limits)
	}
}

func TestConfig_LabelsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field string
		cfg   Config
		says  string
	}{
		{"Labels", Config{Labels: []string{"gpu", "gpu"}}, `"gpu" twice`},
		{"Labels", Config{Labels: []string{"g+u"}}, `"g+u"`},
		{"Labels", Config{Labels: []string{"a", "b", "c", "d", "e"}}, "limit is 4"},
		{"Labels", Config{Labels: []string{"gpu"}, Queues: map[string]int{strings.Repeat("q", 253): 1}}, "255"},
		{"Queues", Config{Queues: map[string]int{"c++": 1}}, "plus sign"},
		{"Queues", Config{Queues: map[string]int{"images+b+a": 1}, Labels: []string{"a", "b"}}, "images+a+b"},
		{"QueueConcurrency", Config{QueueConcurrency: map[string]int{"default+ssd": 1}, Labels: []string{"gpu"}}, "not among Queues"},
	} {
		_, err := NewServer(newStore(), c.cfg)
		var e *broker.Error
		if !errors.As(err, &e) || !errors.Is(err, ErrInvalid) || e.Field != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: the error is %v; want it to name %s and say %q", c.cfg, err, c.field, c.says)
		}
	}
}

// In strict order a server whose label few have must not leave to it last what only
// it can run.
func TestServer_StrictOrderTakesJobsWithMoreLabelsFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var order []string
		gate := make(chan struct{})
		cfg := Config{Concurrency: 1, Prefetch: NoPrefetch, StrictPriority: true, Queues: map[string]int{"a": 1, "b": 2},
			Labels: []string{"gpu", "ssd"}}
		serve(t, b, cfg, func(_ context.Context, j *Job) error {
			if j.Type() == "first" {
				<-gate
				return nil
			}
			order = append(order, j.Queue())
			return nil
		})
		add(t, b, "a", "first", 1)
		synctest.Wait()
		want := []string{"b+gpu+ssd", "b+gpu", "b+ssd", "b", "a+gpu+ssd", "a+gpu", "a+ssd", "a"}
		for _, queue := range slices.Backward(want) {
			add(t, b, queue, "x", 1)
		}
		close(gate)
		pass(time.Second)
		if !slices.Equal(order, want) {
			t.Errorf("they ran in the order %q, want %q", order, want)
		}
	})
}

func TestConfig_LabelsNeverOutweighAWeight(t *testing.T) {
	t.Parallel()
	four := []string{"w", "x", "y", "z"}
	cfg, err := Config{StrictPriority: true, Queues: map[string]int{"a": 1, "b": 2}, Labels: four}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if w := labelsFirst(cfg.Queues); w["a+w+x+y+z"] >= w["b"] || w["a+w+x+y+z"] <= w["a+w+x+y"] {
		t.Errorf("with four labels the lighter queue counts %d, with three %d, and the heavier one without any %d",
			w["a+w+x+y+z"], w["a+w+x+y"], w["b"])
	}
}

func TestQueueWithLabels_NamesTheQueueOfTheJobs(t *testing.T) {
	t.Parallel()
	if name, err := QueueWithLabels("images", "ssd", "gpu"); err != nil || name != "images+gpu+ssd" {
		t.Errorf("it is %q, %v", name, err)
	}
	for _, queue := range []string{"", "{a}", "c++", strings.Repeat("q", 253)} {
		if name, err := QueueWithLabels(queue, "gpu"); !errors.Is(err, ErrInvalid) {
			t.Errorf("beside %q it is %q, %v; want a refusal", queue, name, err)
		}
	}
	if labels.Max != 4 {
		t.Errorf("the limit of labels is %d; comments and documents say 4", labels.Max)
	}
}
