package redisbroker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// planting corrupts the queue of a population by plain commands.
type planting struct {
	testing.TB
	client *redis.Client
	b      *Broker
}

func (p *planting) key(name string) string {
	return baseOf(p.b.config.Prefix, examinetest.Queue) + name
}

// do runs a command whose second word is the name of a key; it must have an
// effect.
func (p *planting) do(command, key string, args ...any) {
	p.Helper()
	reply, err := p.client.Do(p.Context(), append([]any{command, p.key(key)}, args...)...).Result()
	if err != nil || reply == int64(0) && command != "hset" && command != "zadd" {
		p.Fatalf("%s %s %q: %v, %v", command, key, args, reply, err)
	}
}

func (p *planting) get(key, field string) string {
	p.Helper()
	v, err := p.client.HGet(p.Context(), p.key(key), field).Result()
	if err != nil {
		p.Fatal(err)
	}
	return v
}

// lease gives an active job another lease, of the same index.
func (p *planting) lease(id, lease string) {
	p.Helper()
	_, index, _ := strings.Cut(p.get("a", id), "\n")
	p.do("hset", "a", id, lease+"\n"+index)
}

// bucket is the key of the bucket that has a job's body.
func (p *planting) bucket(id string) string {
	return "b" + strconv.Itoa(slotOf(id)%p.b.queue(examinetest.Queue).buckets)
}

// forget removes a job's body and what is not an entry of it.
func (p *planting) forget(id string) {
	p.Helper()
	p.do("hdel", p.bucket(id), id)
	p.client.HDel(p.Context(), p.key("h"), id)
	for _, set := range []string{"i", "ka", "ke"} {
		p.client.ZRem(p.Context(), p.key(set), "tenant\x00"+id)
	}
}

func (p *planting) suppress(id string) {
	p.Helper()
	r, err := p.b.Operate(p.Context(), broker.Operation{Kind: broker.OpSuppress, Refs: []broker.Ref{{Queue: examinetest.Queue, ID: id, Epoch: broker.AnyEpoch}}})
	if err != nil || r[0].Err != nil {
		p.Fatalf("suppress of %s: %v, %v", id, r, err)
	}
}

// planter wraps a plant of this package for the table.
func planter(c *redis.Client, plant func(*planting)) func(testing.TB, broker.Broker) {
	return func(tb testing.TB, b broker.Broker) { plant(&planting{tb, c, b.(*Broker)}) }
}

// soon is a time in the life of a population, as scores are.
var soon = examinetest.Start.Add(time.Hour).UnixMicro()

func corruptions(c *redis.Client, buckets int) []examinetest.Corruption {
	p := func(plant func(*planting)) func(testing.TB, broker.Broker) { return planter(c, plant) }
	table := []examinetest.Corruption{
		{Name: "a pending job is not in line", Want: []string{"job-without-place pending"},
			Plant: p(func(p *planting) { p.do("lrem", "r2", 0, "pending") })},
		{Name: "a line is gone", Want: []string{"job-without-place pending", "job-without-place released", "job-without-place second", "job-without-place unique"},
			Plant: p(func(p *planting) { p.do("del", "r2"); p.do("del", "v"); p.do("hset", "m", "void", 0) })},
		{Name: "a scheduled job has no time", Want: []string{"job-without-place scheduled"}, Then: map[string]broker.State{"scheduled": broker.StatePending},
			Plant: p(func(p *planting) { p.do("zrem", "z", "20:scheduled\ntenant") })},
		{Name: "a rescheduled job has no time", Want: []string{"job-without-place moved"}, Then: map[string]broker.State{"moved": broker.StateDead},
			Plant: p(func(p *planting) { p.do("zrem", "z", "21:moved\ntenant") })},
		{Name: "a retry has no time", Want: []string{"job-without-place retry"}, Then: map[string]broker.State{"retry": broker.StatePending},
			Plant: p(func(p *planting) { p.do("zrem", "y", "21:retry\ntenant") })},
		{Name: "a dead job is not listed", Want: []string{"job-without-place dead"}, Plant: p(func(p *planting) { p.do("zrem", "d", "dead") })},
		{Name: "a completed job is not listed", Want: []string{"job-without-place completed", "lapse-without-record completed"}, Repairs: []string{"job-without-place completed"},
			Plant: p(func(p *planting) { p.do("zrem", "f", "completed") })},
		{Name: "a lease is gone", Want: []string{"job-without-place active", "lease-count-differs w", "key-count-differs active"}, Then: map[string]broker.State{"active": broker.StatePending},
			Plant: p(func(p *planting) { p.do("hdel", "a", "active") })},

		{Name: "an active job is in line too", Want: []string{"job-in-two-places active"}, Plant: p(func(p *planting) { p.do("lpush", "r2", "active") })},
		{Name: "a job is in line twice", Want: []string{"job-in-two-places pending"}, Plant: p(func(p *planting) { p.do("rpush", "r2", "pending") })},
		{Name: "a job is in line and scheduled", Want: []string{"job-in-two-places scheduled"}, Plant: p(func(p *planting) { p.do("lpush", "r2", "scheduled") })},
		{Name: "a retry is scheduled too", Want: []string{"job-in-two-places retry"}, Then: map[string]broker.State{"retry": broker.StateScheduled},
			Plant: p(func(p *planting) { p.do("zadd", "z", soon, "21:retry\ntenant") })},
		{Name: "a completed job is leased", Want: []string{"job-in-two-places completed"},
			Plant: p(func(p *planting) { p.do("hset", "a", "completed", "21:w\n"); p.do("hset", "k", "w", 4) })},
		{Name: "a dead job is counted as suppressed", Want: []string{"count-differs dead"}, Plant: p(func(p *planting) { p.do("sadd", "ds", "dead") })},
		{Name: "a job that is gone is counted as suppressed", Want: []string{"count-differs lost"}, Plant: p(func(p *planting) { p.do("sadd", "ds", "lost") })},
		{Name: "a suppressed job is not counted", Want: []string{"count-differs dead"}, Plant: p(func(p *planting) {
			p.suppress("dead")
			p.do("del", "ds")
		})},
		{Name: "a pending job is listed as dead", Want: []string{"job-in-two-places pending"}, Plant: p(func(p *planting) { p.do("zadd", "d", 1, "pending") })},

		{Name: "a job is gone and in line", Want: []string{"entry-without-job pending"}, Then: map[string]broker.State{"pending": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("pending") })},
		{Name: "a job is gone and scheduled", Want: []string{"entry-without-job scheduled"}, Then: map[string]broker.State{"scheduled": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("scheduled") })},
		{Name: "a job is gone and listed as dead", Want: []string{"entry-without-job dead"}, Then: map[string]broker.State{"dead": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("dead") })},
		{Name: "a job is gone and leased", Want: []string{"lease-without-job active"}, Then: map[string]broker.State{"active": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("active") })},
		{Name: "a job is gone and held", Want: []string{"entry-without-job held", "lease-without-job held"}, Then: map[string]broker.State{"held": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("held"); p.do("hdel", "u", "key-held") })},
		{Name: "a job is noted as held and is not", Want: []string{"job-in-two-places pending"}, Plant: p(func(p *planting) { p.do("hset", "o", "pending", "1:mover") })},
		{Name: "a held job that nobody notes", Want: []string{"lease-malformed held"}, Then: map[string]broker.State{"held": broker.StatePending},
			Plant: p(func(p *planting) { p.do("hdel", "o", "held") })},
		{Name: "a held job has another epoch", Want: []string{"lease-of-other-epoch held"}, Plant: p(func(p *planting) { p.do("hset", "a", "held", "25:\n") })},
		{Name: "a head without a job", Want: []string{"head-without-job nobody"}, Plant: p(func(p *planting) { p.do("hset", "h", "nobody", "3,4,0,1,1,0,0;") })},

		{Name: "an entry in line of an epoch that is over", Want: []string{"entry-of-other-epoch released"},
			Plant: p(func(p *planting) { p.do("lrem", "r2", 0, "\x011:released"); p.do("rpush", "r2", "released") })},
		{Name: "an entry in line of another epoch beside the right one", Want: []string{"entry-of-other-epoch released"},
			Plant: p(func(p *planting) { p.do("rpush", "r2", "released") })},
		{Name: "a turn at another priority", Want: []string{"entry-of-other-epoch second"},
			Plant: p(func(p *planting) { p.do("lrem", "r2", 0, "second"); p.do("rpush", "r4", "second") })},
		{Name: "a time of another epoch", Want: []string{"entry-of-other-epoch moved"},
			Plant: p(func(p *planting) { p.do("zrem", "z", "21:moved\ntenant"); p.do("zadd", "z", soon, "20:moved\ntenant") })},
		{Name: "a time of a job that is active", Want: []string{"entry-of-other-epoch active"}, Plant: p(func(p *planting) { p.do("zadd", "y", 9e15, "27:active\ntenant") })},
		{Name: "an entry in line that names no job", Want: []string{"entry-malformed \x01nonsense"}, Plant: p(func(p *planting) { p.do("rpush", "r2", "\x01nonsense") })},
		{Name: "a time that names no job", Want: []string{"entry-malformed nonsense"}, Plant: p(func(p *planting) { p.do("zadd", "z", 1, "nonsense") })},
		{Name: "a head that forgot that its job died", Want: []string{"head-differs dead"}, Plant: p(func(p *planting) { p.do("hdel", "h", "dead") })},
		{Name: "a record is kept for ever", Want: []string{"record-never-lapses cancelled"}, Plant: p(func(p *planting) { p.do("zrem", "l", "rcancelled") })},
		{Name: "a lapse of nothing", Want: []string{"lapse-without-record nobody"}, Plant: p(func(p *planting) { p.do("zadd", "l", 9e15, "rnobody") })},

		{Name: "a job that is larger than the record says", Want: []string{"size-bound-exceeded large"}, Then: map[string]broker.State{"large": broker.StatePending},
			Plant: p(func(p *planting) {
				j := job(examinetest.Queue, "large")
				j.Body.Payload = make([]byte, 5000)
				_, err := p.b.Enqueue(p.Context(), broker.EnqueueRequest{Now: examinetest.Start, Jobs: []broker.NewJob{j}})
				if err != nil {
					p.Fatal(err)
				}
				p.do("hdel", "m", "big")
			})},
		{Name: "a record that lapsed long ago", Left: true, Want: []string{"prune-behind "},
			Plant: p(func(p *planting) { p.do("zadd", "l", examinetest.Start.Add(-2*time.Hour).UnixMicro(), "rcompleted") })},
		{Name: "something among the dead that cannot be listed", Left: true, Want: []string{"count-differs places"},
			Plant: p(func(p *planting) { p.do("zadd", "d", 9e15, "\x00") })},
		{Name: "a void entry that is not there", Want: []string{"void-mark-without-entry nobody"},
			Plant: p(func(p *planting) { p.do("hset", "v", "2nobody", 1); p.do("hincrby", "m", "void", 1) })},
		{Name: "a count of void entries", Want: []string{"count-differs void"}, Plant: p(func(p *planting) { p.do("hincrby", "m", "void", 2) })},
		{Name: "a missing guard of a list of times", Want: []string{"guard-missing z"}, Plant: p(func(p *planting) { p.do("zremrangebyrank", "z", -1, -1) })},
		{Name: "a missing guard of the leases", Want: []string{"guard-missing a"}, Plant: p(func(p *planting) { p.do("hdel", "a", "") })},

		{Name: "a lease of a worker that nobody knows", Want: []string{"lease-of-unknown-worker active"}, Then: map[string]broker.State{"active": broker.StateActive},
			Plant: p(func(p *planting) { p.lease("active", "20:ghost"); p.do("hset", "k", "w", 2) })},
		{Name: "a lease of another epoch", Want: []string{"lease-of-other-epoch active"}, Plant: p(func(p *planting) { p.lease("active", "25:w") })},
		{Name: "a lease that names nobody", Want: []string{"lease-malformed active", "lease-count-differs w"}, Then: map[string]broker.State{"active": broker.StatePending},
			Plant: p(func(p *planting) { p.do("hset", "a", "active", "nonsense") })},
		{Name: "a count of leases", Want: []string{"lease-count-differs w"}, Plant: p(func(p *planting) { p.do("hset", "k", "w", 7) })},
		{Name: "a job that waits is asked to cancel", Want: []string{"cancel-without-lease pending"}, Plant: p(func(p *planting) { p.do("hset", "c", "pending", "w") })},
		{Name: "another worker is asked to cancel", Want: []string{"cancel-without-lease asked"}, Plant: p(func(p *planting) { p.do("hset", "c", "asked", "ghost") })},
		{Name: "a worker without a time", Want: []string{"worker-without-time w"}, Plant: p(func(p *planting) { p.do("zrem", "w", "w") })},
		{Name: "a worker is alive and ended", Want: []string{"worker-alive-and-ended w"},
			Plant: p(func(p *planting) { p.do("hset", "x", "w", 1); p.do("zadd", "l", 9e15, "ww") })},
		{Name: "what is left of a worker", Want: []string{"worker-leftover ghost", "worker-leftover ghost", "worker-leftover ghost"},
			Plant: p(func(p *planting) {
				p.do("hset", "k", "ghost", 0)
				p.do("hset", "wi", "ghost", "")
				p.do("hset", "x", "ghost", 1)
			})},

		{Name: "a job is not found by its key", Want: []string{"key-entry-missing scheduled"}, Plant: p(func(p *planting) { p.do("zrem", "i", "tenant\x00scheduled") })},
		{Name: "a key leads to nothing", Want: []string{"key-entry-without-job nobody"}, Plant: p(func(p *planting) { p.do("zadd", "i", 0, "tenant\x00nobody") })},
		{Name: "a unique key of nobody", Want: []string{"unique-key-of-missing-job nobody"}, Plant: p(func(p *planting) { p.do("hset", "u", "other", "00:nobody") })},
		{Name: "a unique key of a job that died", Want: []string{"unique-key-of-ended-job died-unique"}, Plant: p(func(p *planting) { p.do("hset", "u", "key-dead", "00:died-unique") })},
		{Name: "a unique key of a job that started", Want: []string{"unique-key-of-ended-job started"}, Plant: p(func(p *planting) { p.do("hset", "u", "key-started", "10:started") })},
		{Name: "a unique key that nobody holds", Want: []string{"unique-key-not-held unique"}, Plant: p(func(p *planting) { p.do("hdel", "u", "key") })},
		{Name: "a unique key that another job holds", Left: true, Want: []string{"unique-key-not-held unique"},
			Plant: p(func(p *planting) {
				old := p.get(p.bucket("unique"), "unique")
				p.do("hset", p.bucket("twin"), "twin", old)
				p.do("lpush", "r2", "twin")
				p.do("hset", "u", "key", "00:twin")
			})},
		{Name: "a window that never lapses", Want: []string{"unique-window-never-lapses key-window"}, Plant: p(func(p *planting) { p.do("zrem", "l", "ukey-window") })},
		{Name: "an ID that is remembered for ever", Want: []string{"remembered-id-never-lapses gone"}, Plant: p(func(p *planting) { p.do("zrem", "l", "igone") })},

		{Name: "a queue that is not listed", Want: []string{"queue-not-listed "},
			Plant: p(func(p *planting) { p.client.SRem(p.Context(), p.b.listKey(), examinetest.Queue) })},
		{Name: "a queue without a record", Want: []string{"queue-record-missing "}, Repairs: []string{"queue-record-missing ", "count-differs void", "count-differs keyed"},
			Plant: p(func(p *planting) { p.do("del", "m") })},
		{Name: "a key that expires", Want: []string{"key-expires h"}, Plant: p(func(p *planting) { p.do("expire", "h", 1000) })},
		{Name: "a key of another kind", Left: true, Want: []string{"key-of-wrong-type r3"}, Plant: p(func(p *planting) { p.do("set", "r3", "mine") })},
		{Name: "a layout of a newer release", Left: true, Want: []string{"layout-newer "}, Plant: p(func(p *planting) { p.do("hset", "m", "v", layoutVersion+1) })},
		{Name: "no wake token", Want: []string{"wake-token-missing "}, Plant: p(func(p *planting) { p.do("del", "t") })},
		{Name: "a fence that would be given out again", Want: []string{"mark-fence-behind mark"},
			Plant: p(func(p *planting) { p.marks("n", func(key string) { p.client.Set(p.Context(), key, 0, 0) }) })},
		{Name: "a mark that never lapses", Want: []string{"mark-never-lapses mark"},
			Plant: p(func(p *planting) { p.marks("l", func(key string) { p.client.Del(p.Context(), key) }) })},
	}
	table = append(table, keyCorruptions(p)...)
	plain := plainKey(buckets)
	flag := []string{"shortcut-flag-differs " + plain}
	table = append(table,
		examinetest.Corruption{Name: "a plain queue that does not look so", Want: flag, Plant: p(func(p *planting) { p.do("del", plain) })},
		examinetest.Corruption{Name: "a limit that does not show", Want: flag, Plant: p(func(p *planting) { p.do("hset", "m", "max_depth", 1000) })},
		examinetest.Corruption{Name: "a queue without a record that does not look plain", Want: []string{"queue-record-missing "},
			Repairs: append(flag, "queue-record-missing ", "count-differs void", "count-differs keyed"), Plant: p(func(p *planting) { p.do("del", "m"); p.do("del", plain) })})
	if buckets == 1 {
		return table
	}
	table = append(table, examinetest.Corruption{Name: "a body in another bucket", Want: []string{"body-in-wrong-bucket dead", "entry-without-job dead", "head-without-job dead", "key-entry-without-job dead"},
		Repairs: []string{"body-in-wrong-bucket dead"},
		Plant: p(func(p *planting) {
			right, wrong := p.bucket("dead"), "b0"
			if right == wrong {
				wrong = "b1"
			}
			p.do("hset", wrong, "dead", p.get(right, "dead"))
			p.do("hdel", right, "dead")
		})})
	return table
}

// marks calls f for a key of the group that has a mark.
func (p *planting) marks(name string, f func(key string)) {
	for _, q := range p.b.marks {
		if p.client.Exists(p.Context(), q.key("h")).Val() == 1 {
			f(q.key(name))
		}
	}
}

func TestExamine_EveryCorruptionIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.PrivateRedis(t).URL) // an examination looks through all keys of a server
	if err != nil {
		t.Fatal(err)
	}
	for _, buckets := range []int{1, 3} {
		t.Run(fmt.Sprint(buckets, "_buckets"), func(t *testing.T) {
			t.Parallel()
			c := redis.NewClient(o)
			t.Cleanup(func() { _ = c.Close() })
			examinetest.Run(t, func(tb testing.TB) broker.Broker {
				return openAs(tb, c, Config{Prefix: placeName(tb), Buckets: buckets})
			}, corruptions(c, buckets))
		})
	}
}

func TestExamine_AnExaminationOfABusyStoreFindsNothing(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.PrivateRedis(t).URL) // an examination looks through all keys of a server, also those of other tests
	if err != nil {
		t.Fatal(err)
	}
	alone := redis.NewClient(o)
	t.Cleanup(func() { _ = alone.Close() })
	for name, c := range map[string]redis.UniversalClient{"server": alone, "cluster": clusterClient(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := testenv.Name(t)
			examinetest.Busy(t, func(tb testing.TB) broker.Broker { return openAs(tb, c, Config{Prefix: prefix}) })
		})
	}
}

func TestExamine_AnExaminationGoesInBoundedSteps(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	const jobs = 100_000
	for i := range jobs / 10_000 {
		var news []broker.NewJob
		for k := range 10_000 {
			j := job("q", fmt.Sprintf("%03d-%04d", i, k))
			if k%10 == 0 {
				j.Delay = time.Hour
			}
			news = append(news, j)
		}
		enqueue(t, b, news...)
	}
	examine := func(fix bool) (found []broker.Finding, records int) {
		found, err := examinetest.All(t.Context(), b, broker.ExamineRequest{Now: at(1), Limit: 1000, Fix: fix}, func(step broker.Examined) {
			// The server's scan may give some records more than it was asked for.
			if records += step.Records; step.Records > 1000 {
				t.Errorf("a step of part %q looked at %d records, want 1000 at most", step.Part, step.Records)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(found, func(f broker.Finding) bool { return f.Code == "server-not-persistent" }), records
	}
	if found, records := examine(false); len(found) > 0 || records < 2*jobs {
		t.Errorf("found %+v in %d records", found, records)
	}
	// What happens when somebody deletes the line of a queue.
	base := baseOf(b.config.Prefix, "q")
	if err := c.Del(t.Context(), base+"r2").Err(); err != nil {
		t.Fatal(err)
	}
	if found, _ := examine(true); len(found) != jobs*9/10 || found[0].Code != "job-without-place" || !found[0].Fixed {
		t.Errorf("%d findings, want one for each of the jobs that were in line", len(found))
	}
	if n := c.LLen(t.Context(), base+"r2").Val(); n != jobs*9/10 {
		t.Errorf("%d jobs are in line again, want %d", n, jobs*9/10)
	}
	if found, _ := examine(false); len(found) > 0 {
		t.Errorf("after the repair: %d findings, %+v", len(found), found[0])
	}
	register(t, b, "w", "q")
	for i, j := range claimAt(t, b, at(1), "w", 9, "q").Jobs {
		if want := fmt.Sprintf("000-%04d", i+1); j.ID != want {
			t.Errorf("job %s goes out as number %d, want %s: the order in which they came", j.ID, i, want)
		}
	}
}

// Two examinations that repair at once, step by step in turn, repair a job once.
func TestExamine_TwoExaminationsRepairAJobOnce(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	enqueue(t, b, job("q", "a"), job("q", "b"))
	base := baseOf(b.config.Prefix, "q")
	if err := c.Del(t.Context(), base+"r2").Err(); err != nil {
		t.Fatal(err)
	}
	req := [2]broker.ExamineRequest{{Now: at(1), Queue: "q", Fix: true, Limit: 1}, {Now: at(1), Queue: "q", Fix: true, Limit: 1}}
	fixed := 0
	for open := 2; open > 0; {
		open = 0
		for i := range req {
			if req[i].Limit == 0 {
				continue
			}
			got, err := b.Examine(t.Context(), req[i])
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range got.Findings {
				if f.Fixed {
					fixed++
				}
			}
			if req[i].Cursor = got.Cursor; got.Cursor == "" {
				req[i].Limit = 0
			} else {
				open++
			}
		}
	}
	if n := c.LLen(t.Context(), base+"r2").Val(); fixed != 2 || n != 2 {
		t.Errorf("%d repairs left %d entries in line, want 2 and 2", fixed, n)
	}
}

// A step may be asked of another process than the one before.
func TestExamine_AnExaminationGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	c := client(t)
	prefix := testenv.Name(t)
	handles := []*Broker{openAs(t, c, Config{Prefix: prefix}), openAs(t, c, Config{Prefix: prefix})}
	enqueue(t, handles[0], job("q", "a"))
	if err := c.Del(t.Context(), baseOf(prefix, "q")+"r2").Err(); err != nil {
		t.Fatal(err)
	}
	req := broker.ExamineRequest{Now: at(1), Queue: "q"}
	var found []broker.Finding
	for n := range 200 {
		who := 0
		if n == 4 {
			who = 1
		}
		got, err := handles[who].Examine(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, got.Findings...)
		if req.Cursor = got.Cursor; req.Cursor == "" {
			break
		}
	}
	if req.Cursor != "" || len(found) != 1 || found[0].Code != "job-without-place" {
		t.Errorf("found %+v, and the cursor at last was %q", found, req.Cursor)
	}
	for _, req := range []broker.ExamineRequest{{Cursor: "x"}, {Cursor: "x:jobs\n{\n"}, {Queue: "q", Cursor: "x:jobs\nr\n"}, {Limit: -1}, {Queue: "{"}} {
		if _, err := handles[0].Examine(t.Context(), req); err == nil || broker.MayHaveApplied(err) {
			t.Errorf("Examine(%+v) answered %v, want ErrInvalid", req, err)
		}
	}
}

func TestExamine_ServersThatLoseJobsAreFound(t *testing.T) {
	t.Parallel()
	good := "redis_version:7.2.0\r\nrole:master\r\nmaxmemory:1000\r\nused_memory:100\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nrdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\n"
	for _, c := range []struct {
		name, from, to, save string
		skew                 time.Duration
		want                 string
	}{
		{name: "a good server"},
		{name: "an old server", from: "7.2.0", to: "6.0.16", want: "server-too-old"},
		{name: "a replica", from: "role:master", to: "role:slave", want: "server-read-only"},
		{name: "eviction of any key", from: "noeviction", to: "allkeys-lru", want: "server-evicts-jobs"},
		{name: "eviction of keys that expire, which no key here does", from: "noeviction", to: "volatile-lru"},
		{name: "nothing on disk", from: "aof_enabled:1", to: "aof_enabled:0", want: "server-not-persistent"},
		{name: "snapshots alone", from: "aof_enabled:1", to: "aof_enabled:0", save: "3600 1"},
		{name: "a full disk", from: "aof_last_write_status:ok", to: "aof_last_write_status:err", want: "server-persistence-fails"},
		{name: "snapshots that fail", from: "bgsave_status:ok", to: "bgsave_status:err", want: "server-persistence-fails"},
		{name: "little memory left", from: "used_memory:100", to: "used_memory:950", want: "server-nearly-full"},
		{name: "no bound of memory", from: "maxmemory:1000", to: "maxmemory:0"},
		{name: "a clock that is ahead", skew: time.Minute, want: "clocks-differ"},
		{name: "a clock that is behind", skew: -time.Minute, want: "clocks-differ"},
		{name: "a server that tells nothing", from: good},
	} {
		var codes []string
		for _, f := range settings("a:1", parseInfo(strings.Replace(good, c.from, c.to, 1)), c.save, c.skew) {
			codes = append(codes, f.Code)
		}
		if got := strings.Join(codes, " "); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// A user that may do no more than read finds everything; what the server does
// not tell is not checked.
func TestExamine_AUserThatMayOnlyReadCanExamine(t *testing.T) {
	t.Parallel()
	admin := client(t)
	b := open(t, admin)
	examinetest.Populate(t, b)
	base := baseOf(b.config.Prefix, examinetest.Queue)
	if err := admin.HDel(t.Context(), base+"u", "key").Err(); err != nil {
		t.Fatal(err)
	}
	name := b.config.Prefix
	if err := admin.Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~"+name+":*", "+@read", "+@connection", "+evalsha", "+script|load", "+time", "-info", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Do(context.Background(), "ACL", "DELUSER", name) })
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	o.Username, o.Password = name, "secret"
	limited := redis.NewClient(o)
	t.Cleanup(func() { _ = limited.Close() })
	reader := openAs(t, limited, Config{Prefix: name, Logger: slog.New(slog.DiscardHandler)})
	found, err := examinetest.All(t.Context(), reader, broker.ExamineRequest{Now: examinetest.Later}, nil)
	if err != nil || len(found) != 1 || found[0].Code != "unique-key-not-held" {
		t.Errorf("found %+v, %v, want the unique key", found, err)
	}
	if _, err := examinetest.All(t.Context(), reader, broker.ExamineRequest{Now: examinetest.Later, Fix: true}, nil); err == nil {
		t.Error("a repair by who may only read answered no error")
	}
}
