package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// asynqRedis returns a Redis with data that asynq wrote, as recorded by a test of the
// module compat/asynq.
func asynqRedis(t *testing.T) (url string, r *redis.Client) {
	t.Helper()
	addr := miniredis.RunT(t).Addr()
	r = redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { r.Close() })
	file, err := os.Open("../../compat/asynqdata/testdata/asynq-0.26.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ctx, p := t.Context(), r.Pipeline()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var k struct {
			Key  string
			Text []byte
			List [][]byte
			Set  []string
			Hash map[string][]byte
			Z    []redis.Z
		}
		if err := json.Unmarshal(lines.Bytes(), &k); err != nil {
			t.Fatal(err)
		}
		if k.Text != nil {
			p.Set(ctx, k.Key, k.Text, 0)
		}
		for _, text := range k.List {
			p.RPush(ctx, k.Key, text)
		}
		for _, member := range k.Set {
			p.SAdd(ctx, k.Key, member)
		}
		for name, text := range k.Hash {
			p.HSet(ctx, k.Key, name, text)
		}
		if len(k.Z) > 0 {
			p.ZAdd(ctx, k.Key, k.Z...)
		}
	}
	if _, err := p.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	return "redis://" + addr, r
}

func TestImportAsynq_TakesEveryTaskOnceHoweverOftenItRuns(t *testing.T) {
	t.Parallel()
	from, r := asynqRedis(t)
	c, _ := inMemory(t)
	dry, _ := c.both(4, "import", "asynq", "--from", from, "--dry-run") // 4: one periodic task is refused
	c.has(dry, `(?m)^default: 3 pending, 1 scheduled, 1 retry, 2 archived in asynq\.\n`+
		`  7 of 7 jobs could be imported; nothing was changed\.\n  Not imported: 1 completed\.`,
		`schedule asynq:report:[0-9a-f]{12} \(30 3 \* \* \*\) could be imported`)
	c.has(c.run(0, "ls", "--state", ""), `^QUEUE[^\n]*\n$`)

	out, errs := c.both(4, "import", "asynq", "--from", from, "--zone", "Europe/Berlin")
	c.has(out, `(?m)^bulk: 3 pending, 1 archived in asynq\.\n`+
		`  4 jobs imported; 0 existed already\.\n  Read again, and found here: 4 of 4 jobs; 0 of them`,
		`(?m)^critical: 1 pending in asynq\.\n  1 job imported.*\n.*\n  Not imported: 1 aggregating\.`,
		`(?m)^default: .*\n  7 jobs imported; 0 existed already\.\n  Read again, and found here: 7 of 7 jobs; 0 of them`,
		`\(30 3 \* \* \* Europe/Berlin\) imported, and paused`, `\(0 9 \* \* 1-5 Asia/Tokyo\) imported, and paused`,
		`\(@every 1m30s|@every 90s\) imported`,
		`ProcessIn\(1m0s\) of the periodic task "report" has no equivalent`)
	c.has(errs, "refused, see above")
	if n := r.DBSize(t.Context()).Val(); n != 36 {
		t.Errorf("asynq's Redis has %d keys after the import, and had 36", n)
	}
	c.has(c.run(0, "stats", "default"), `(?m)^default +3 +1 `)
	c.has(c.run(0, "ls", "--queue", "default", "--state", "retry"), `fails +email:deliver +retry +1 .*mail server is away`)
	c.has(c.run(0, "dlq", "list", "--queue", "default"), `spent +email:deliver +dead`, `hopeless +email:deliver +dead .*no such user`)
	c.has(c.run(0, "why", "hopeless"), `skip_retry`)
	c.has(c.run(0, "schedule", "list"), `(?m)^asynq:report:\S+ +30 3 \* \* \* +Europe/Berlin +paused`)
	c.has(c.run(0, "queues", "policy", "default"), `DUPLICATE SPAN +7d`)

	// A job that ran and left no record is not imported again.
	c.has(c.run(0, "delete", "first", "--yes"), "1 of 1")
	again, _ := c.both(4, "import", "asynq", "--from", from, "--zone", "Europe/Berlin", "--json")
	c.has(again, `"done":0,.*"gone":1,.*"queue":"default",.*"read":7,.*"refusals":\[\],"refused":0,"repeated":7,.*"verified":true`,
		`"change":"unchanged"`)
	c.has(c.run(0, "stats", "default"), `(?m)^default +2 +1 `)

	// Jobs that are enqueued later arrive with the next import.
	ctx := t.Context()
	message := r.HGet(ctx, "asynq:{bulk}:t:many-0000", "msg").Val()
	r.HSet(ctx, "asynq:{bulk}:t:new", "msg", strings.ReplaceAll(message, "many-0000", "many-9999"), "state", "pending")
	r.LPush(ctx, "asynq:{bulk}:pending", "new")
	r.LPush(ctx, "asynq:{bulk}:pending", "broken")
	r.HSet(ctx, "asynq:{bulk}:t:broken", "msg", "\xff", "state", "pending")
	out, _ = c.both(4, "import", "asynq", "--from", from, "--queue", "bulk")
	c.has(out, `(?m)^bulk: 5 pending, 1 archived in asynq\.\n  1 job imported; 4 existed already\.\n`+
		`  Read again, and found here: 5 of 6 jobs;.*\n  broken: .*malformed`)
}

// No queue here can have such a name. The queues after it, and the schedules, are imported all the same.
func TestImportAsynq_AQueueThatCannotExistHereRefusesItsTasksAlone(t *testing.T) {
	t.Parallel()
	from, r := asynqRedis(t)
	c, _ := inMemory(t)
	ctx := t.Context()
	r.SAdd(ctx, "asynq:queues", "a{b}")
	message := r.HGet(ctx, "asynq:{bulk}:t:many-0000", "msg").Val()
	r.HSet(ctx, "asynq:{a{b}}:t:many-0000", "msg", strings.ReplaceAll(message, "bulk", "a{b}"), "state", "pending")
	r.LPush(ctx, "asynq:{a{b}}:pending", "many-0000")
	out, errs := c.both(4, "import", "asynq", "--from", from, "--zone", "Europe/Berlin", "--yes")
	c.has(out, `(?m)^a\{b\}: 1 pending in asynq\.\n  0 jobs imported;.*\n.*\n  many-0000: .*contains a brace`,
		`(?m)^default: .*\n  7 jobs imported`, `Europe/Berlin\) imported, and paused`)
	c.has(errs, "refused, see above")
}

// The policy of a queue is changed before its first task is imported.
func TestImportAsynq_AFailureAfterAChangeOfAPolicyIsAFailureOnTheWay(t *testing.T) {
	t.Parallel()
	from, r := asynqRedis(t)
	if err := r.SAdd(t.Context(), "asynq:queues", "a-queue-without-tasks").Err(); err != nil {
		t.Fatal(err)
	}
	c := failing(membroker.NewStore(), 1, func(r any) bool {
		p, ok := r.(*broker.PolicyRequest)
		return ok && p.Queue == "bulk"
	})
	c.t = t
	c.has(c.run(6, "import", "asynq", "--from", from, "--yes"), "what was done before is not undone")
}

func TestImportAsynq_AsksBeforeJobsCanRunTwice(t *testing.T) {
	t.Parallel()
	from, r := asynqRedis(t)
	c, _ := inMemory(t)
	ctx := t.Context()
	r.ZAdd(ctx, "asynq:servers", redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: "asynq:servers:{host:1:x}"})
	c.run(0, "import", "asynq", "--from", from, "--queue", "critical") // everything is paused
	r.Del(ctx, "asynq:{default}:paused")
	c.has(c.run(7, "import", "asynq", "--from", from), `while asynq works on default, which is not paused: jobs can run in both`,
		"not confirmed")
	c.has(c.run(3, "ls", "--queue", "default"), "not found")
	c.has(c.run(0, "import", "asynq", "--from", from, "--queue", "default", "--yes"), "7 jobs imported")
}

func TestImportAsynq_SaysWhatIsWrongWithItsSource(t *testing.T) {
	t.Parallel()
	from, r := asynqRedis(t)
	c, _ := inMemory(t)
	c.has(c.run(2, "import", "asynq"), "give --from")
	c.has(c.run(2, "import", "asynq", "--from", "postgres://u:s3cret@h/db"), "scheme")
	c.has(c.run(2, "import", "asynq", "--from", "redis://h/0?prefix=x"), "known here: db")
	c.has(c.run(2, "import", "asynq", "more"), "takes no arguments")
	c.has(c.run(3, "import", "asynq", "--from", from, "--queue", "defualt"), "not found")
	r.Close()
	c.has(c.run(5, "import", "asynq", "--from", "redis://:s3cret@127.0.0.1:1/0"), "asynq's Redis cannot be read")
}
