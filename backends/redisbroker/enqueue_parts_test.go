package redisbroker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// meanwhile lets another process act once, after the server has answered the first script that a process sends.
type meanwhile struct {
	act  func()
	once sync.Once
}

func (*meanwhile) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meanwhile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" {
			m.once.Do(m.act)
		}
		return err
	}
}

func (m *meanwhile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		at := slices.IndexFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "evalsha" }) + 1
		if at == 0 || at == len(cmds) {
			return next(ctx, cmds)
		}
		_ = next(ctx, cmds[:at]) // the command has the error
		m.once.Do(m.act)
		return next(ctx, cmds[at:])
	}
}

// A request of several calls keeps its order, also if the server refuses the first of them for a reason that another process repairs
// before the server sees the second. A server may run commands of others between those of a long pipeline.
func TestEnqueue_CallsKeepTheirOrderWhileOthersRepairTheServer(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL) // other tests need their scripts
	for _, p := range []struct {
		name   string
		before func(t *testing.T, other *Broker)
		act    func(t *testing.T, other *Broker)
	}{
		{"the queue was missing", func(*testing.T, *Broker) {},
			func(t *testing.T, other *Broker) { register(t, other, "w", "q") }},
		{"the scripts were missing",
			func(t *testing.T, other *Broker) {
				register(t, other, "w", "q")
				if err := c.ScriptFlush(t.Context()).Err(); err != nil {
					t.Error(err)
				}
			},
			func(t *testing.T, other *Broker) {
				if err := loadScripts(t.Context(), other.store.single); err != nil {
					t.Error(err)
				}
			}},
		{"the queue had a limit",
			func(t *testing.T, other *Broker) {
				register(t, other, "w", "q")
				rules(t, other, broker.PolicyRequest{Paused: new(true)})
			},
			func(t *testing.T, other *Broker) { rules(t, other, broker.PolicyRequest{Paused: new(false)}) }},
	} {
		config := Config{Prefix: testenv.Name(t)}
		b, other := openAs(t, c, config), openAs(t, c, config)
		p.before(t, other)
		b.store.single.AddHook(&meanwhile{act: func() { p.act(t, other) }})
		jobs := several("q", callJobs+2, nil)
		if receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: at(0), Jobs: jobs}); err != nil || receipts[0].Err != nil {
			t.Fatalf("%s: Enqueue: %v, %v", p.name, receipts[0], err)
		}
		var got, want []string
		for len(got) < len(jobs) {
			claimed := claimAt(t, other, at(0), "w", callJobs, "q").Jobs
			if len(claimed) == 0 {
				break
			}
			for _, j := range claimed {
				got = append(got, j.ID)
			}
		}
		for _, j := range jobs {
			want = append(want, j.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: claimed %d jobs, the first are %q, want all %d in their order", p.name, len(got), got[:min(3, len(got))], len(want))
		}
	}
}

// refusesFirst answers the first script with the refusal of a full server.
type refusesFirst struct {
	meanwhile
	used bool
}

func (r *refusesFirst) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && !r.used {
			r.used = true
			cmd.SetErr(full{})
			return full{}
		}
		return next(ctx, cmd)
	}
}

// A caller that sends the refused jobs of a request again does not change their order: what follows a part that failed was not sent.
func TestEnqueue_WhatFollowsAFailedPartIsNotSent(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	b.store.single.AddHook(&refusesFirst{})
	jobs := several("q", callJobs+2, nil)
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: at(0), Jobs: jobs})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if !errors.Is(r.Err, broker.ErrUnavailable) || broker.MayHaveApplied(r.Err) {
			t.Fatalf("%s: %v, want ErrUnavailable", r.ID, r.Err)
		}
	}
	if got := claimAt(t, b, at(0), "w", callJobs, "q").Jobs; len(got) != 0 {
		t.Errorf("%d refused jobs were stored", len(got))
	}
}
