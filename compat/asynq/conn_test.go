package asynqcompat_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	asynqcompat "github.com/seed81422ce9/jobs/compat/asynq"
	"github.com/seed81422ce9/jobs/jobstest"
)

func client(t *testing.T, b *jobstest.Broker) *asynq.Client {
	c := asynq.NewClient(asynqcompat.Conn(b.Client()))
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func stored(t *testing.T, b broker.Broker, queue, id string) *broker.Job {
	t.Helper()
	page, err := b.Find(t.Context(), broker.Query{Queue: queue, IDs: []string{id}})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("job %s of %s: %d found, %v", id, queue, len(page.Jobs), err)
	}
	return &page.Jobs[0]
}

func TestConn_OptionsMeanWhatTheyMeanInAsynq(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	c := client(t, b)
	now, err := b.Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(); err != nil {
		t.Error(err)
	}
	deadline := now.Add(48 * time.Hour).Truncate(time.Second)
	task := asynq.NewTaskWithHeaders("image:resize", []byte("\xff\x00"), map[string]string{"trace": "1"},
		asynq.MaxRetry(5), asynq.Timeout(20*time.Minute), asynq.Queue("images")) // options of the task itself
	for _, one := range []struct {
		name string
		task *asynq.Task
		opts []asynq.Option
		want broker.Body
		in   time.Duration
	}{
		{"none", asynq.NewTask("t", nil), nil, broker.Body{Type: "t", MaxRetries: 25, Timeout: 30 * time.Minute}, 0},
		{"of the task", task, nil, broker.Body{Type: "image:resize", Payload: []byte("\xff\x00"), MaxRetries: 5, Timeout: 20 * time.Minute}, 0},
		{"longer than any", asynq.NewTask("t", nil), []asynq.Option{asynq.Timeout(math.MaxInt64), asynq.Retention(math.MaxInt64)},
			broker.Body{Type: "t", MaxRetries: 25, Timeout: broker.NoTimeout, Retention: broker.MaxDelay}, 0},
		{"of the call", task, []asynq.Option{asynq.MaxRetry(0), asynq.Timeout(time.Minute), asynq.Retention(time.Hour)},
			broker.Body{Type: "image:resize", Payload: []byte("\xff\x00"), Timeout: time.Minute, Retention: time.Hour}, 0},
		{"deadline alone", asynq.NewTask("t", nil), []asynq.Option{asynq.Deadline(deadline)},
			broker.Body{Type: "t", MaxRetries: 25, Timeout: jobs.NoTimeout, Deadline: deadline}, 0},
		{"deadline and timeout", asynq.NewTask("t", nil), []asynq.Option{asynq.Deadline(deadline), asynq.Timeout(time.Minute)},
			broker.Body{Type: "t", MaxRetries: 25, Timeout: time.Minute, Deadline: deadline}, 0},
		{"process in", asynq.NewTask("t", nil), []asynq.Option{asynq.ProcessIn(24 * time.Hour)},
			broker.Body{Type: "t", MaxRetries: 25, Timeout: 30 * time.Minute}, 24 * time.Hour},
		{"process at", asynq.NewTask("t", nil), []asynq.Option{asynq.ProcessAt(deadline)},
			broker.Body{Type: "t", MaxRetries: 25, Timeout: 30 * time.Minute}, 48 * time.Hour},
		{"unique", asynq.NewTask("once", []byte("x")), []asynq.Option{asynq.Unique(time.Hour)},
			broker.Body{Type: "once", Payload: []byte("x"), MaxRetries: 25, Timeout: 30 * time.Minute,
				Unique: broker.Unique{Key: "asynq:once:9dd4e461268c8034f5c8564e155c67a6", TTL: time.Hour}}, 0},
		{"unique, later", asynq.NewTask("once", []byte("y")), []asynq.Option{asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour)},
			broker.Body{Type: "once", Payload: []byte("y"), MaxRetries: 25, Timeout: 30 * time.Minute,
				Unique: broker.Unique{Key: "asynq:once:415290769594460e2e485922904f345d", TTL: 2 * time.Hour}}, time.Hour},
	} {
		info, err := c.EnqueueContext(t.Context(), one.task, one.opts...)
		if err != nil {
			t.Errorf("%s: %v", one.name, err)
			continue
		}
		job := stored(t, b, info.Queue, info.ID)
		got := job.Body
		if info.Type == "image:resize" && (job.Queue != "images" || got.Headers["trace"] != "1") {
			t.Errorf("%s: the job is in %s and has headers %v", one.name, job.Queue, got.Headers)
		}
		if late := got.Unique.TTL - one.want.Unique.TTL; late < -3*time.Second || late > 0 {
			t.Errorf("%s: the key is held for %v, want %v", one.name, got.Unique.TTL, one.want.Unique.TTL)
		}
		if got.Type != one.want.Type || string(got.Payload) != string(one.want.Payload) || got.MaxRetries != one.want.MaxRetries ||
			got.Timeout != one.want.Timeout || !got.Deadline.Equal(one.want.Deadline) || got.Retention != one.want.Retention ||
			got.Unique.Key != one.want.Unique.Key || got.Source != "asynq" {
			t.Errorf("%s: the job is %+v, want %+v", one.name, got, one.want)
		}
		state := broker.StatePending
		if one.in > 0 {
			state = broker.StateScheduled
			if wait := job.RunAt.Sub(now); wait < one.in-2*time.Second || wait > one.in+time.Minute {
				t.Errorf("%s: due in %v, want %v", one.name, wait, one.in)
			}
		}
		if job.State != state || info.State.String() != state.String() {
			t.Errorf("%s: the job is %v, and asynq says %v; want %v", one.name, job.State, info.State, state)
		}
	}
}

func TestConn_RefusesAsAsynqDoes(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	c := client(t, b)
	task := asynq.NewTask("once", []byte("x"))
	if _, err := c.Enqueue(task, asynq.TaskID("a"), asynq.Unique(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(task, asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
		t.Errorf("the same task within its time: error %v, want ErrDuplicateTask", err)
	}
	if _, err := c.Enqueue(task, asynq.TaskID("a")); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("the same ID: error %v, want ErrTaskIDConflict", err)
	}
	if _, err := c.Enqueue(task, asynq.TaskID("a"), asynq.ProcessIn(time.Hour)); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("the same ID, later: error %v, want ErrTaskIDConflict", err)
	}
	for _, opts := range [][]asynq.Option{{asynq.Group("g")}, {asynq.Group("g"), asynq.ProcessIn(time.Hour)},
		{asynq.Group("g"), asynq.Unique(time.Hour)}} {
		if _, err := c.Enqueue(asynq.NewTask("grouped", nil), opts...); err == nil ||
			!strings.Contains(err.Error(), "asynq.Group is not supported") {
			t.Errorf("a group (%v): error %v", opts, err)
		}
	}
	if _, err := c.Enqueue(asynq.NewTask("t", nil), asynq.Queue("a{b}")); err == nil || !strings.Contains(err.Error(), "queue") {
		t.Errorf("a queue that cannot be: error %v", err)
	}
	jobstest.NotEnqueued(t, b, jobs.Define[any]("grouped"))
}

// What Conn does not serve says so, and reaches no Redis.
func TestConn_ServesClientsAlone(t *testing.T) {
	t.Parallel()
	conn := asynqcompat.Conn(jobstest.New(t).Client())
	inspector := asynq.NewInspector(conn)
	defer inspector.Close()
	if _, err := inspector.Queues(); err == nil || !strings.Contains(err.Error(), "package") {
		t.Errorf("an inspector: error %v", err)
	}
	if _, err := inspector.GetQueueInfo("default"); err == nil {
		t.Error("an inspector found a queue")
	}
}
