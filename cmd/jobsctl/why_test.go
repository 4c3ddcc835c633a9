package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// Each answer of why, in a store in which it is true.
func TestWhy(t *testing.T) {
	transcribe(t, func(s *transcript) {
		b, ctx := s.broker(), s.t.Context()
		long := time.Now().Add(-time.Hour) // the time of what happened an hour ago
		do := func(err error) {
			s.t.Helper()
			if err != nil {
				s.t.Fatal(err)
			}
		}
		enqueue := func(queue, id, typ string, options ...string) {
			s.t.Helper()
			if _, errs, code := s.run(append([]string{"enqueue", "--queue", queue, "--type", typ, "--id", id, "--retention", "24h"},
				options...)...); code != 0 {
				s.t.Fatalf("enqueue %s: %s", id, errs)
			}
		}
		say := func(what string) { s.text.WriteString("# " + what + "\n") }
		register := func(worker, queue string, now time.Time) {
			s.t.Helper()
			_, err := b.Renew(ctx, broker.RenewRequest{Now: now, Worker: worker, Queues: []string{queue}, Lease: time.Minute, Register: true,
				Info: broker.WorkerInfo{ID: worker, Host: "app-1", PID: 7, Program: "shop v1", Concurrency: 2, Queues: []string{queue},
					Types: []string{"email:*"}}})
			do(err)
		}

		say("nobody serves the queue")
		enqueue("mail", "first", "email:welcome")
		s.jobs("why", "first")
		s.jobs("why", "first", "--json")
		say("it is paused besides")
		s.run("queues", "pause", "mail")
		s.jobs("why", "first", "--json")
		s.run("queues", "resume", "mail")
		say("not due")
		enqueue("mail", "later", "email:welcome", "--delay", "48h")
		s.jobs("why", "later", "--json")

		say("running, and all slots are busy")
		w := s.work("mail", 1, "email:*")
		w.holds()
		s.jobs("why", "first", "--json")
		enqueue("mail", "second", "email:stubborn")
		s.jobs("why", "second", "--json")
		say("nobody knows the type; the worker asks for no other while it is busy")
		enqueue("mail", "unknown", "report:daily")
		s.jobs("why", "unknown", "--json")
		say("ended in each way")
		w.ends(nil, broker.StateCompleted)
		s.jobs("why", "first", "--json")
		w.holds()
		say("asked to cancel, and still running")
		s.run("cancel", "second", "--yes")
		s.jobs("why", "second", "--json")
		s.run("delete", "unknown", "--yes")
		w.ends(jobs.Cancel(nil), broker.StateCancelled)
		s.jobs("why", "second", "--json")
		enqueue("mail", "third", "email:welcome")
		w.holds()
		w.ends(fmt.Errorf("%w: no such user", jobs.SkipRetry), broker.StateDead)
		s.jobs("why", "third", "--json")
		enqueue("mail", "fourth", "email:welcome", "--max-retries", "3")
		w.holds()
		w.ends(fmt.Errorf("503 from the other side"), broker.StateRetry)
		s.jobs("why", "fourth", "--json")
		w.stop()

		say("in line: a worker has room, and others are before it")
		enqueue("line", "one", "email:welcome")
		enqueue("line", "two", "email:welcome")
		register("idle", "line", time.Time{})
		s.jobs("why", "two", "--json")
		say("with a deadline, and due for long")
		do(func() error {
			receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Now: long, Jobs: []broker.NewJob{{Queue: "line", ID: "due", Delay: time.Minute,
				Body: broker.Body{Type: "email:welcome", Priority: 2, Deadline: time.Now().Add(time.Hour)}}}})
			if err == nil {
				err = receipts[0].Err
			}
			return err
		}())
		s.jobs("why", "due", "--json")
		say("its worker died")
		enqueue("crash", "victim", "email:welcome")
		register("gone", "crash", long)
		claimed, err := b.Claim(ctx, broker.ClaimRequest{Now: long.Add(time.Second), Worker: "gone",
			Queues: []broker.Share{{Queue: "crash", Max: 1}}, Max: 1})
		do(err)
		if len(claimed.Jobs) != 1 {
			s.t.Fatal("the worker that dies got no job")
		}
		s.jobs("why", "victim", "--json")
		s.jobs("workers", "crash", "line")
		say("a move holds it")
		enqueue("moving", "held", "email:welcome")
		results, err := b.Operate(ctx, broker.Operation{Kind: broker.OpHold, Holder: "a test that holds it",
			Refs: []broker.Ref{{Queue: "moving", ID: "held", Epoch: broker.AnyEpoch}}})
		do(err)
		do(results[0].Err)
		s.jobs("why", "held", "--json")
		say("there is no such job, or there are two")
		s.jobs("why", "nothing", "--json")
		enqueue("mail", "two", "email:welcome")
		s.jobs("why", "two", "--json")
	})
}

// Another program may have damaged a job's record.
func TestWhy_AJobCannotBeRead(t *testing.T) {
	t.Parallel()
	prefixed, postgres := testenv.RedisPlace(t), testenv.PostgresPlace(t)
	for _, url := range []string{prefixed, postgres} {
		t.Run(strings.SplitN(url, ":", 2)[0], func(t *testing.T) {
			s := &transcript{cli: &cli{t: t, url: url, open: backends.Open}}
			s.run("migrate")
			s.run("enqueue", "--type", "x", "--queue", "mail", "--id", "a")
			if s.url == postgres {
				damagePostgres(t, s.url)
			} else {
				damageRedis(t, s.url)
			}
			if out, errs, code := s.run("why", "a"); code != 0 || !strings.Contains(out, "cannot be read") {
				t.Errorf("why answers %d %s%s", code, out, errs)
			}
			if out, errs, code := s.run("ls"); code != 0 || !strings.Contains(out, "mail") {
				t.Errorf("ls answers %d %s%s", code, out, errs)
			}
		})
	}
}

func damageRedis(t *testing.T, url string) {
	t.Helper()
	server, prefix, _ := strings.Cut(url, "?prefix=")
	options, err := redis.ParseURL(server)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer c.Close()
	damaged := 0
	keys := c.Scan(t.Context(), 0, prefix+":{*}:mail:b[0-9]*", 1000).Iterator()
	for keys.Next(t.Context()) {
		if ok, err := c.HExists(t.Context(), keys.Val(), "a").Result(); err != nil || !ok {
			continue
		}
		if err := c.HSet(t.Context(), keys.Val(), "a", "12345678\xff\xff damaged").Err(); err != nil {
			t.Fatal(err)
		}
		damaged++
	}
	if damaged != 1 {
		t.Fatalf("the body was found in %d keys", damaged)
	}
}

func damagePostgres(t *testing.T, url string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	schema := config.RuntimeParams["schema"]
	delete(config.RuntimeParams, "schema")
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if tag, err := c.Exec(t.Context(), `update `+schema+`.job set body = '\xffff00' where id = 'a'`); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("damaging a row: %v, %v", tag, err)
	}
}
