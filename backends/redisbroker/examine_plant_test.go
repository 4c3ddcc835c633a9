package redisbroker

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// planting corrupts the queue of a population with plain commands.
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

// lease gives an active job another lease, with the same index.
func (p *planting) lease(id, lease string) {
	p.Helper()
	_, index, _ := strings.Cut(p.get("a", id), "\n")
	p.do("hset", "a", id, lease+"\n"+index)
}

// bucket returns the key of the bucket that has a job's body.
func (p *planting) bucket(id string) string {
	return "b" + strconv.Itoa(slotOf(id)%p.b.queue(examinetest.Queue).buckets)
}

// forget removes a job's body, head and members in the sets of keys. Its entries stay.
func (p *planting) forget(id string) {
	p.Helper()
	p.do("hdel", p.bucket(id), id)
	p.client.HDel(p.Context(), p.key("h"), id)
	for _, set := range []string{"i", "ka", "ke"} {
		p.client.ZRem(p.Context(), p.key(set), "tenant\x00"+id)
	}
}

// unindex removes the member of the index of dead jobs for a job's type (t), reason (r) or error (m), and adds others.
func (p *planting) unindex(id, kind string, others ...string) {
	p.Helper()
	for _, member := range p.client.ZRange(p.Context(), p.key("dc"), 0, -1).Val() {
		if strings.HasPrefix(member, kind) && strings.Contains(member, id) {
			p.do("zrem", "dc", member)
		}
	}
	for _, member := range others {
		p.do("zadd", "dc", 0, member)
	}
}

// errorOf returns the entry of a dead job and an error, in the index of dead jobs.
func (p *planting) errorOf(id, message string) string {
	return fmt.Sprintf("%016.0f%s\x00%d\x00%s", p.client.ZScore(p.Context(), p.key("d"), id).Val(), id, len(message), message)
}

func (p *planting) suppress(id string) {
	p.Helper()
	r, err := p.b.Operate(p.Context(), broker.Operation{Kind: broker.OpSuppress,
		Refs: []broker.Ref{{Queue: examinetest.Queue, ID: id, Epoch: broker.AnyEpoch}}})
	if err != nil || r[0].Err != nil {
		p.Fatalf("suppress of %s: %v, %v", id, r, err)
	}
}

// planter adapts a corruption of this package to the table's type.
func planter(c *redis.Client, plant func(*planting)) func(testing.TB, broker.Broker) {
	return func(tb testing.TB, b broker.Broker) { plant(&planting{tb, c, b.(*Broker)}) }
}

// soon is a time in the life of a population, in the form of a score.
var soon = examinetest.Start.Add(time.Hour).UnixMicro()

func corruptions(c *redis.Client, buckets int) []examinetest.Corruption {
	p := func(plant func(*planting)) func(testing.TB, broker.Broker) { return planter(c, plant) }
	table := []examinetest.Corruption{
		{Name: "a pending job is not in line", Want: []string{"job-without-entry pending"},
			Plant: p(func(p *planting) { p.do("lrem", "r2", 0, "pending") })},
		{Name: "a line is gone", Want: []string{"job-without-entry pending", "job-without-entry released", "job-without-entry second",
			"job-without-entry unique"},
			Plant: p(func(p *planting) { p.do("del", "r2"); p.do("del", "v"); p.do("hset", "m", "void", 0) })},
		{Name: "a scheduled job has no time", Want: []string{"job-without-entry scheduled"},
			Then:  map[string]broker.State{"scheduled": broker.StatePending},
			Plant: p(func(p *planting) { p.do("zrem", "z", "20:scheduled\ntenant") })},
		{Name: "a rescheduled job has no time", Want: []string{"job-without-entry moved"},
			Then:  map[string]broker.State{"moved": broker.StateDead},
			Plant: p(func(p *planting) { p.do("zrem", "z", "21:moved\ntenant") })},
		{Name: "a retry has no time", Want: []string{"job-without-entry retry"}, Then: map[string]broker.State{"retry": broker.StatePending},
			Plant: p(func(p *planting) { p.do("zrem", "y", "21:retry\ntenant") })},
		{Name: "a dead job is not listed", Want: []string{"job-without-entry dead"}, Plant: p(func(p *planting) { p.do("zrem", "d", "dead") })},
		{Name: "a dead job is not found by its type", Want: []string{"dead-job-not-indexed dead"},
			Plant: p(func(p *planting) { p.unindex("dead", "t") })},
		{Name: "a dead job is not found by its reason", Want: []string{"dead-job-not-indexed dead"},
			Plant: p(func(p *planting) { p.unindex("dead", "r") })},
		{Name: "a dead job is not found by its error", Want: []string{"dead-job-not-indexed dead"},
			Plant: p(func(p *planting) { p.unindex("dead", "m") })},
		{Name: "the index of dead jobs has another error of one",
			Want:    []string{"dead-job-not-indexed dead", "dead-index-entry-without-job dead"},
			Repairs: []string{"dead-job-not-indexed dead"},
			Plant:   p(func(p *planting) { p.unindex("dead", "m", "m\x00"+p.errorOf("dead", "another")+"0003\x01") })},
		{Name: "the index of dead jobs has an error of one that is not dead", Want: []string{"dead-index-entry-without-job pending"},
			Plant: p(func(p *planting) { p.do("zadd", "dc", 0, "m\x000000000000000001pending\x004\x00busy0003\x01") })},
		{Name: "a block of errors has another count", Want: []string{"dead-index-entry-without-job dead"},
			Plant: p(func(p *planting) { p.unindex("dead", "m", "m\x00"+p.errorOf("dead", "it failed")+"0003\x02") })},
		{Name: "a block of errors cannot be read to its end", Want: []string{"dead-index-entry-without-job dead"},
			Plant: p(func(p *planting) { p.unindex("dead", "m", "m\x00"+p.errorOf("dead", "it failed")+"x0003\x01") })},
		{Name: "an error stands in two blocks, and twice in one",
			Want: []string{"dead-index-entry-without-job dead", "dead-index-entry-without-job dead"},
			Plant: p(func(p *planting) {
				p.do("zadd", "dc", 0, "m\x00"+p.errorOf("dead", "it failed")+p.errorOf("dead", "it failed")+"0035\x02")
			})},
		{Name: "the index of dead jobs has one that is not dead", Want: []string{"dead-index-entry-without-job pending"},
			Plant: p(func(p *planting) { p.do("zadd", "dc", 0, "tt\x000000000000000001pending") })},
		{Name: "the index of dead jobs has one of another type", Want: []string{"dead-index-entry-without-job dead"},
			Plant: p(func(p *planting) {
				p.do("zadd", "dc", 0, fmt.Sprintf("tother\x00%016.0fdead", p.client.ZScore(p.Context(), p.key("d"), "dead").Val()))
			})},
		{Name: "the index of dead jobs has a member that cannot be read", Want: []string{"dead-index-entry-without-job t"},
			Plant: p(func(p *planting) { p.do("zadd", "dc", 0, "t") })},
		{Name: "a completed job is not listed", Want: []string{"job-without-entry completed", "lapse-without-record completed"},
			Repairs: []string{"job-without-entry completed"},
			Plant:   p(func(p *planting) { p.do("zrem", "f", "completed") })},
		{Name: "a lease is gone", Want: []string{"job-without-entry active", "lease-count-differs w", "key-count-differs active"},
			Then:  map[string]broker.State{"active": broker.StatePending},
			Plant: p(func(p *planting) { p.do("hdel", "a", "active") })},

		{Name: "an active job is in line too", Want: []string{"job-listed-twice active"},
			Plant: p(func(p *planting) { p.do("lpush", "r2", "active") })},
		{Name: "a job is in line twice", Want: []string{"job-listed-twice pending"},
			Plant: p(func(p *planting) { p.do("rpush", "r2", "pending") })},
		{Name: "a job is in line and scheduled", Want: []string{"job-listed-twice scheduled"},
			Plant: p(func(p *planting) { p.do("lpush", "r2", "scheduled") })},
		{Name: "a retry is scheduled too", Want: []string{"job-listed-twice retry"},
			Then:  map[string]broker.State{"retry": broker.StateScheduled},
			Plant: p(func(p *planting) { p.do("zadd", "z", soon, "21:retry\ntenant") })},
		{Name: "a completed job is leased", Want: []string{"job-listed-twice completed"},
			Plant: p(func(p *planting) { p.do("hset", "a", "completed", "21:w\n"); p.do("hset", "k", "w", 4) })},
		{Name: "a dead job is counted as suppressed", Want: []string{"count-differs dead"},
			Plant: p(func(p *planting) { p.do("sadd", "ds", "dead") })},
		{Name: "a job that is gone is counted as suppressed", Want: []string{"count-differs lost"},
			Plant: p(func(p *planting) { p.do("sadd", "ds", "lost") })},
		{Name: "a suppressed job is not counted", Want: []string{"count-differs dead"}, Plant: p(func(p *planting) {
			p.suppress("dead")
			p.do("del", "ds")
		})},
		{Name: "a pending job is listed as dead", Want: []string{"job-listed-twice pending"},
			Plant: p(func(p *planting) { p.do("zadd", "d", 1, "pending") })},

		{Name: "a job is gone and in line", Want: []string{"entry-without-job pending"},
			Then:  map[string]broker.State{"pending": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("pending") })},
		{Name: "a job is gone and scheduled", Want: []string{"entry-without-job scheduled"},
			Then:  map[string]broker.State{"scheduled": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("scheduled") })},
		{Name: "a job is gone and listed as dead",
			Want: []string{"dead-index-entry-without-job dead", "dead-index-entry-without-job dead", "dead-index-entry-without-job dead",
				"entry-without-job dead"},
			Then:  map[string]broker.State{"dead": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("dead") })},
		{Name: "a job is gone and leased", Want: []string{"lease-without-job active"}, Then: map[string]broker.State{"active": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("active") })},
		{Name: "a job is gone and held", Want: []string{"entry-without-job held", "lease-without-job held"},
			Then:  map[string]broker.State{"held": broker.StateNone},
			Plant: p(func(p *planting) { p.forget("held"); p.do("hdel", "u", "key-held") })},
		{Name: "a job is noted as held and is not", Want: []string{"job-listed-twice pending"},
			Plant: p(func(p *planting) { p.do("hset", "o", "pending", "1:mover") })},
		{Name: "a held job that nobody notes", Want: []string{"lease-malformed held"}, Then: map[string]broker.State{"held": broker.StatePending},
			Plant: p(func(p *planting) { p.do("hdel", "o", "held") })},
		{Name: "a held job has another epoch", Want: []string{"lease-of-other-epoch held"},
			Plant: p(func(p *planting) { p.do("hset", "a", "held", "25:\n") })},
		{Name: "a head without a job", Want: []string{"head-without-job nobody"},
			Plant: p(func(p *planting) { p.do("hset", "h", "nobody", "3,4,0,1,1,0,0;") })},

		{Name: "an entry in line of an epoch that is over", Want: []string{"entry-of-other-epoch released"},
			Plant: p(func(p *planting) { p.do("lrem", "r2", 0, "\x011:released"); p.do("rpush", "r2", "released") })},
		{Name: "an entry in line of another epoch beside the right one", Want: []string{"entry-of-other-epoch released"},
			Plant: p(func(p *planting) { p.do("rpush", "r2", "released") })},
		{Name: "a turn at another priority", Want: []string{"entry-of-other-epoch second"},
			Plant: p(func(p *planting) { p.do("lrem", "r2", 0, "second"); p.do("rpush", "r4", "second") })},
		{Name: "a time of another epoch", Want: []string{"entry-of-other-epoch moved"},
			Plant: p(func(p *planting) { p.do("zrem", "z", "21:moved\ntenant"); p.do("zadd", "z", soon, "20:moved\ntenant") })},
		{Name: "a time of a job that is active", Want: []string{"entry-of-other-epoch active"},
			Plant: p(func(p *planting) { p.do("zadd", "y", 9e15, "27:active\ntenant") })},
		{Name: "an entry in line that names no job", Want: []string{"entry-malformed \x01nonsense"},
			Plant: p(func(p *planting) { p.do("rpush", "r2", "\x01nonsense") })},
		{Name: "a time that names no job", Want: []string{"entry-malformed nonsense"},
			Plant: p(func(p *planting) { p.do("zadd", "z", 1, "nonsense") })},
		{Name: "a head that forgot that its job died",
			Want:  []string{"dead-index-entry-without-job dead", "dead-index-entry-without-job dead", "head-differs dead"},
			Plant: p(func(p *planting) { p.do("hdel", "h", "dead") })},
		{Name: "a record is kept for ever", Want: []string{"record-never-lapses cancelled"},
			Plant: p(func(p *planting) { p.do("zrem", "l", "rcancelled") })},
		{Name: "a lapse of nothing", Want: []string{"lapse-without-record nobody"},
			Plant: p(func(p *planting) { p.do("zadd", "l", 9e15, "rnobody") })},

		{Name: "a job that is larger than the record says", Want: []string{"size-bound-exceeded large"},
			Then: map[string]broker.State{"large": broker.StatePending},
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
			Plant: p(func(p *planting) { p.do("zadd", "d", "+inf", "\x00") })},
		{Name: "a void entry that is not there", Want: []string{"void-mark-without-entry nobody"},
			Plant: p(func(p *planting) { p.do("hset", "v", "2nobody", 1); p.do("hincrby", "m", "void", 1) })},
		{Name: "a count of void entries", Want: []string{"count-differs void"}, Plant: p(func(p *planting) { p.do("hincrby", "m", "void", 2) })},
		{Name: "a missing guard of a list of times", Want: []string{"guard-missing z"},
			Plant: p(func(p *planting) { p.do("zremrangebyrank", "z", -1, -1) })},
		{Name: "a missing guard of the leases", Want: []string{"guard-missing a"}, Plant: p(func(p *planting) { p.do("hdel", "a", "") })},

		{Name: "a lease of a worker that nobody knows", Want: []string{"lease-of-unknown-worker active"},
			Then:  map[string]broker.State{"active": broker.StateActive},
			Plant: p(func(p *planting) { p.lease("active", "20:ghost"); p.do("hset", "k", "w", 2) })},
		{Name: "a lease of another epoch", Want: []string{"lease-of-other-epoch active"},
			Plant: p(func(p *planting) { p.lease("active", "25:w") })},
		{Name: "a lease that names nobody", Want: []string{"lease-malformed active", "lease-count-differs w"},
			Then:  map[string]broker.State{"active": broker.StatePending},
			Plant: p(func(p *planting) { p.do("hset", "a", "active", "nonsense") })},
		{Name: "a count of leases", Want: []string{"lease-count-differs w"}, Plant: p(func(p *planting) { p.do("hset", "k", "w", 7) })},
		{Name: "a job that waits is asked to cancel", Want: []string{"cancel-without-lease pending"},
			Plant: p(func(p *planting) { p.do("hset", "c", "pending", "w") })},
		{Name: "another worker is asked to cancel", Want: []string{"cancel-without-lease asked"},
			Plant: p(func(p *planting) { p.do("hset", "c", "asked", "ghost") })},
		{Name: "a worker without a time", Want: []string{"worker-without-time w"}, Plant: p(func(p *planting) { p.do("zrem", "w", "w") })},
		{Name: "a worker is alive and ended", Want: []string{"worker-alive-and-ended w"},
			Plant: p(func(p *planting) { p.do("hset", "x", "w", 1); p.do("zadd", "l", 9e15, "ww") })},
		{Name: "what is left of a worker", Want: []string{"worker-leftover ghost", "worker-leftover ghost", "worker-leftover ghost"},
			Plant: p(func(p *planting) {
				p.do("hset", "k", "ghost", 0)
				p.do("hset", "wi", "ghost", "")
				p.do("hset", "x", "ghost", 1)
			})},

		{Name: "a job is not found by its key", Want: []string{"key-entry-missing scheduled"},
			Plant: p(func(p *planting) { p.do("zrem", "i", "tenant\x00scheduled") })},
		{Name: "a key leads to nothing", Want: []string{"key-entry-without-job nobody"},
			Plant: p(func(p *planting) { p.do("zadd", "i", 0, "tenant\x00nobody") })},
		{Name: "a unique key of nobody", Want: []string{"unique-key-of-missing-job nobody"},
			Plant: p(func(p *planting) { p.do("hset", "u", "other", "00:nobody") })},
		{Name: "a unique key whose value is malformed", Want: []string{"unique-key-of-missing-job key-odd"},
			Plant: p(func(p *planting) { p.do("hset", "u", "key-odd", "nonsense") })},
		{Name: "a unique key of a job that died", Want: []string{"unique-key-of-ended-job died-unique"},
			Plant: p(func(p *planting) { p.do("hset", "u", "key-dead", "00:died-unique") })},
		{Name: "a unique key of a job that started", Want: []string{"unique-key-of-ended-job started"},
			Plant: p(func(p *planting) { p.do("hset", "u", "key-started", "10:started") })},
		{Name: "a unique key that nobody holds", Want: []string{"unique-key-not-held unique"},
			Plant: p(func(p *planting) { p.do("hdel", "u", "key") })},
		{Name: "a unique key that another job holds", Left: true, Want: []string{"unique-key-not-held unique"},
			Plant: p(func(p *planting) {
				old := p.get(p.bucket("unique"), "unique")
				p.do("hset", p.bucket("twin"), "twin", old)
				p.do("lpush", "r2", "twin")
				p.do("hset", "u", "key", "00:twin")
			})},
		{Name: "a window that never lapses", Want: []string{"unique-window-never-lapses key-window"},
			Plant: p(func(p *planting) { p.do("zrem", "l", "ukey-window") })},
		{Name: "an ID that is remembered for ever", Want: []string{"remembered-id-never-lapses gone"},
			Plant: p(func(p *planting) { p.do("zrem", "l", "igone") })},

		{Name: "a queue that is not listed", Want: []string{"queue-not-listed "},
			Plant: p(func(p *planting) { p.client.SRem(p.Context(), p.b.listKey(), examinetest.Queue) })},
		{Name: "a queue without a record", Want: []string{"queue-record-missing "},
			Repairs: []string{"queue-record-missing ", "count-differs void", "count-differs keyed"},
			Plant:   p(func(p *planting) { p.do("del", "m") })},
		{Name: "a key that expires", Want: []string{"key-expires h"}, Plant: p(func(p *planting) { p.do("expire", "h", 1000) })},
		{Name: "a key of another kind", Left: true, Want: []string{"key-of-wrong-type r3"},
			Plant: p(func(p *planting) { p.do("set", "r3", "mine") })},
		{Name: "a layout of a newer release", Left: true, Want: []string{"layout-newer "},
			Plant: p(func(p *planting) { p.do("hset", "m", "v", layoutVersion+1) })},
		{Name: "no wake token", Want: []string{"wake-token-missing "}, Plant: p(func(p *planting) { p.do("del", "t") })},
		{Name: "a fence that would be given out again", Want: []string{"mark-fence-behind mark"},
			Plant: p(func(p *planting) { p.marks("n", func(key string) { p.client.Set(p.Context(), key, 0, 0) }) })},
		{Name: "a mark that never lapses", Want: []string{"mark-never-lapses mark"},
			Plant: p(func(p *planting) { p.marks("l", func(key string) { p.client.Del(p.Context(), key) }) })},
	}
	table = append(table, keyCorruptions(p)...)
	plain := plainKey(buckets)
	flag := []string{"plain-flag-differs " + plain}
	table = append(table,
		examinetest.Corruption{Name: "a plain queue that does not look so", Want: flag, Plant: p(func(p *planting) { p.do("del", plain) })},
		examinetest.Corruption{Name: "a plain queue that counts nothing", Want: flag, Plant: p(func(p *planting) { p.do("set", plain, "x") })},
		examinetest.Corruption{Name: "a limit that does not show", Want: flag,
			Plant: p(func(p *planting) { p.do("hset", "m", "max_depth", 1000) })},
		examinetest.Corruption{Name: "a queue without a record that does not look plain", Want: []string{"queue-record-missing "},
			Repairs: append(flag, "queue-record-missing ", "count-differs void", "count-differs keyed"),
			Plant:   p(func(p *planting) { p.do("del", "m"); p.do("del", plain) })})
	if buckets == 1 {
		return table
	}
	table = append(table, examinetest.Corruption{Name: "a body in another bucket",
		Want: []string{"body-in-wrong-bucket dead", "dead-index-entry-without-job dead", "entry-without-job dead", "head-without-job dead",
			"key-entry-without-job dead"},
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
