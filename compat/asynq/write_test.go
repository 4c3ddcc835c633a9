package asynqcompat_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// record writes what asynq wrote to a file, for the tests of the module jobs, which
// compiles no asynq. REDIS_ADDR names a server to write to that has nothing else in
// it; without, it is one in memory.
var record = flag.String("record", "", "file to record asynq's data in")

// quiet is a logger for asynq.
type quiet struct{}

func (quiet) Debug(...any) {}
func (quiet) Info(...any)  {}
func (quiet) Warn(...any)  {}
func (quiet) Error(...any) {}
func (quiet) Fatal(...any) {}

// bulk is how many tasks are in a queue alone: more than two pages, or a few to record.
func bulk() int {
	if *record != "" {
		return 3
	}
	return 1100
}

// later is when the scheduled tasks are due.
var later = time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)

// asynqWrites has asynq itself fill a Redis: a server leaves a task in each state that
// it can, a client enqueues with every option, and a scheduler registers entries.
func asynqWrites(t *testing.T) *redis.Client {
	t.Helper()
	addr := os.Getenv("REDIS_ADDR")
	if addr == "" {
		addr = miniredis.RunT(t).Addr()
	}
	conn := asynq.RedisClientOpt{Addr: addr}
	client, inspector := asynq.NewClient(conn), asynq.NewInspector(conn)
	t.Cleanup(func() { client.Close(); inspector.Close() })
	enqueue := func(id, typ, payload string, opts ...asynq.Option) {
		t.Helper()
		task := asynq.NewTaskWithHeaders(typ, []byte(payload), map[string]string{"trace": id})
		if _, err := client.Enqueue(task, append(opts, asynq.TaskID(id))...); err != nil {
			t.Fatal(err)
		}
	}

	// What a server has tried once.
	enqueue("fails", "email:deliver", `{"user":1}`, asynq.MaxRetry(5))
	enqueue("hopeless", "email:deliver", `{"user":2}`, asynq.MaxRetry(5))
	enqueue("spent", "email:deliver", `{"user":3}`, asynq.MaxRetry(0))
	enqueue("done", "email:deliver", `{"user":4}`, asynq.Retention(time.Hour))
	work(t, conn, inspector)

	// What nobody has tried.
	enqueue("first", "email:deliver", `{"user":5}`)
	enqueue("second", "image:resize", "\xff\x00 bytes", asynq.MaxRetry(3), asynq.Timeout(90*time.Second), asynq.Deadline(later),
		asynq.Retention(2*time.Hour), asynq.Unique(time.Hour))
	enqueue("deadline", "image:resize", "", asynq.Deadline(later))
	enqueue("scheduled", "email:remind", `{"user":6}`, asynq.ProcessAt(later), asynq.Unique(24*time.Hour))
	enqueue("urgent", "email:deliver", `{}`, asynq.Queue("critical"))
	enqueue("grouped", "email:digest", `{}`, asynq.Queue("critical"), asynq.Group("user-1"))
	for n := range bulk() {
		enqueue(fmt.Sprintf("many-%04d", n), "bulk", "x", asynq.Queue("bulk"))
	}
	enqueue("kept-back", "bulk", "x", asynq.Queue("bulk"))
	if err := inspector.ArchiveTask("bulk", "kept-back"); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"default", "critical", "bulk"} {
		if err := inspector.PauseQueue(queue); err != nil {
			t.Fatal(err)
		}
	}
	register(t, conn, inspector)
	r := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { r.Close() })
	return r
}

// work has a server of asynq try what is pending.
func work(t *testing.T, conn asynq.RedisConnOpt, inspector *asynq.Inspector) {
	t.Helper()
	server := asynq.NewServer(conn, asynq.Config{Concurrency: 1, Logger: quiet{}, TaskCheckInterval: 200 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		switch task.Headers()["trace"] {
		case "done":
			return nil
		case "hopeless":
			return fmt.Errorf("no such user: %w", asynq.SkipRetry)
		}
		return errors.New("mail server is away")
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	await(t, "a server of asynq to try four tasks", func() bool {
		info, err := inspector.GetQueueInfo("default")
		return err == nil && info.Retry == 1 && info.Archived == 2 && info.Completed == 1
	})
}

// register has a scheduler of asynq write its entries. It goes on until the test ends.
func register(t *testing.T, conn asynq.RedisConnOpt, inspector *asynq.Inspector) {
	t.Helper()
	scheduler := asynq.NewScheduler(conn, &asynq.SchedulerOpts{Logger: quiet{}, HeartbeatInterval: time.Second})
	entries := 0
	for _, e := range []struct {
		spec string
		opts []asynq.Option
	}{
		{"30 3 * * *", []asynq.Option{asynq.Queue("low"), asynq.MaxRetry(3), asynq.Unique(time.Hour), asynq.Timeout(time.Minute),
			asynq.Retention(time.Hour)}},
		{"CRON_TZ=Asia/Tokyo 0 9 * * 1-5", nil},
		{"@every 90s", nil},
		{"@daily", []asynq.Option{asynq.ProcessIn(time.Minute)}},
	} {
		if _, err := scheduler.Register(e.spec, asynq.NewTask("report", []byte(e.spec)), e.opts...); err != nil {
			t.Fatal(err)
		}
		entries++
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)
	await(t, "a scheduler of asynq to write its entries", func() bool {
		list, err := inspector.SchedulerEntries()
		return err == nil && len(list) == entries
	})
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// recorded is a key as DUMP would give it, in a form that people can read and any
// server can load.
type recorded struct {
	Key  string
	Text []byte            `json:",omitempty"` // of a string
	List [][]byte          `json:",omitempty"`
	Set  []string          `json:",omitempty"`
	Hash map[string][]byte `json:",omitempty"`
	Z    []redis.Z         `json:",omitempty"`
}

// recordTo writes all that asynq wrote to a file.
func recordTo(t *testing.T, r *redis.Client, file string) {
	t.Helper()
	ctx := t.Context()
	var all []recorded
	keys := r.Scan(ctx, 0, "asynq:*", 1000).Iterator()
	for keys.Next(ctx) {
		k := recorded{Key: keys.Val()}
		var err error
		switch kind := r.Type(ctx, k.Key).Val(); kind {
		case "string":
			k.Text, err = r.Get(ctx, k.Key).Bytes()
		case "list":
			var list []string
			list, err = r.LRange(ctx, k.Key, 0, -1).Result()
			for _, text := range list {
				k.List = append(k.List, []byte(text))
			}
		case "set":
			k.Set, err = r.SMembers(ctx, k.Key).Result()
		case "hash":
			var hash map[string]string
			hash, err = r.HGetAll(ctx, k.Key).Result()
			k.Hash = make(map[string][]byte)
			for name, text := range hash {
				k.Hash[name] = []byte(text)
			}
		case "zset":
			k.Z, err = r.ZRangeWithScores(ctx, k.Key, 0, -1).Result()
		default:
			t.Fatalf("%s is a %s", k.Key, kind)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, k := range all { // a key a line
		if err := json.NewEncoder(out).Encode(k); err != nil {
			t.Fatal(err)
		}
	}
}
