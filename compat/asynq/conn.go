package asynqcompat

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/compat/asynqdata"
)

// Conn makes asynq.NewClient return a client whose tasks become jobs of c, in
// whatever store that is:
//
//	client := asynq.NewClient(asynqcompat.Conn(c))
//
// Tasks, options and errors are asynq's own: MaxRetry, Queue, Timeout, Deadline, Unique, ProcessAt,
// ProcessIn, TaskID and Retention work as in asynq. Group is refused, by an error that says so.
// asynq.ErrDuplicateTask and asynq.ErrTaskIDConflict are returned as before; other errors have only the
// text of the error of Client.Enqueue, because asynq keeps only the text. Closing the client does not
// close c.
//
// A task is unique until it is done, dead or cancelled, and for no longer than its
// option says; asynq holds the key of an archived task for the whole time.
//
// Servers, schedulers and inspectors of asynq need its own Redis, and get an error:
// use jobs.Server with Handler, package schedule and package inspect.
func Conn(c *jobs.Client) asynq.RedisConnOpt { return conn{c} }

type conn struct{ client *jobs.Client }

// MakeRedisClient returns a Redis client that connects to no server: this package answers each command.
func (c conn) MakeRedisClient() any {
	r := redis.NewClient(&redis.Options{Addr: "asynqcompat", MaxRetries: -1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errUnserved }})
	r.AddHook(hook(c))
	return r
}

var errUnserved = errors.New("asynqcompat: Conn serves only asynq.Client; " +
	"for servers, schedulers and inspectors use packages jobs, schedule and inspect")

// errGroup refuses what has no equivalent.
var errGroup = errors.New("asynqcompat: asynq.Group is not supported; use jobs.HandleMany, which makes batches where jobs are handled")

// hook answers the commands with which asynq enqueues.
type hook struct{ client *jobs.Client }

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := h.answer(ctx, cmd)
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

func (h hook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(errUnserved)
		}
		return errUnserved
	}
}

func (h hook) answer(ctx context.Context, cmd redis.Cmder) error {
	args := cmd.Args()
	switch cmd := cmd.(type) {
	case *redis.StatusCmd:
		if cmd.Name() == "ping" {
			cmd.SetVal("PONG")
			return h.ping(ctx)
		}
	case *redis.IntCmd:
		if cmd.Name() == "sadd" && len(args) > 1 && args[1] == "asynq:queues" {
			cmd.SetVal(1)
			return nil
		}
	case *redis.Cmd:
		if call, ok := parseScript(args); ok {
			n, err := h.enqueue(ctx, call)
			cmd.SetVal(n)
			return err
		}
	}
	return errUnserved
}

func (h hook) ping(ctx context.Context) error {
	b := h.client.Broker()
	if b == nil {
		return nil // the client of a transaction has no store to ping
	}
	_, err := b.Ping(ctx)
	return err
}

// script is a call of one of the scripts with which asynq enqueues. Its keys are
// [unique key,] task, list; its args are [message, ID or score, …] or, with a unique
// key, [ID, seconds to hold it, [score,] message, …]. Scripts for groups have other keys and args.
type script struct {
	keys    []string
	args    []any
	message []byte
}

func parseScript(args []any) (s script, ok bool) {
	if len(args) < 3 || args[0] != "evalsha" {
		return s, false
	}
	n, ok := args[2].(int)
	if !ok || n < 2 || len(args) < 3+n {
		return s, false
	}
	for _, arg := range args[3 : 3+n] {
		key, _ := arg.(string)
		s.keys = append(s.keys, key)
	}
	s.args = args[3+n:]
	at := slices.IndexFunc(s.args, func(arg any) bool { _, ok := arg.([]byte); return ok })
	if at < 0 || len(s.args) < 3 || !strings.Contains(s.keys[0]+s.keys[1], "}:t:") {
		return s, false
	}
	s.message = s.args[at].([]byte)
	return s, true
}

// What the scripts answer.
const (
	stored        int64 = 1
	taskIDExists  int64 = 0
	uniqueKeyHeld int64 = -1
)

func (h hook) enqueue(ctx context.Context, s script) (int64, error) {
	m, err := asynqdata.ParseMessage(s.message)
	if err != nil {
		return 0, err
	}
	if m.GroupKey != "" {
		return 0, errGroup
	}
	b := m.NewJob().Body
	options := []jobs.Option{jobs.WithID(m.ID), jobs.WithQueue(m.Queue), jobs.WithMaxRetries(b.MaxRetries), jobs.WithTimeout(b.Timeout),
		jobs.WithDeadline(b.Deadline), jobs.WithRetention(b.Retention), jobs.WithHeaders(b.Headers), jobs.WithSource(b.Source)}
	score, list := s.args[1], s.keys[len(s.keys)-1]
	if len(s.keys) == 3 {
		seconds, ok := s.args[1].(int)
		if !ok {
			return 0, errUnserved
		}
		options = append(options, jobs.WithUniqueKey(b.Unique.Key), jobs.WithUniqueUntilDone(time.Duration(seconds)*time.Second))
		score = s.args[2]
	}
	switch at, ok := score.(int64); {
	case strings.HasSuffix(list, "}:scheduled") && ok:
		options = append(options, jobs.WithRunAt(time.Unix(at, 0)))
	case !strings.HasSuffix(list, "}:pending"):
		return 0, errUnserved
	}
	info, err := h.client.Enqueue(ctx, jobs.NewTask(m.Type, m.Payload), options...)
	switch {
	case errors.Is(err, jobs.ErrDuplicate) && info != nil && info.ID != m.ID:
		return uniqueKeyHeld, nil
	case errors.Is(err, jobs.ErrDuplicate):
		return taskIDExists, nil
	case err != nil:
		return 0, fmt.Errorf("asynqcompat: %w", err)
	}
	return stored, nil
}
