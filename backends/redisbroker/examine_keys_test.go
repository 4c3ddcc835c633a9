package redisbroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// keyCorruptions returns the corruptions of the structures for keys: entries, indexes and limits.
func keyCorruptions(p func(func(*planting)) func(testing.TB, broker.Broker)) []examinetest.Corruption {
	return []examinetest.Corruption{
		{Name: "the line of a key is gone", Want: []string{"job-without-entry keyed", "key-count-differs tenant"},
			Repairs: []string{"job-without-entry keyed", "key-count-differs tenant", "count-differs keyed"},
			Plant:   p(func(p *planting) { p.do("hset", "ks", "2tenant", "1 1 1\n") })},
		{Name: "the count of a line is gone", Want: []string{"job-without-entry keyed", "count-differs keyed", "key-entry-without-job tenant"},
			Repairs: []string{"job-without-entry keyed", "count-differs keyed"},
			Plant:   p(func(p *planting) { p.do("hdel", "ks", "2tenant") })},
		{Name: "a line that counts too many", Want: []string{"key-count-differs tenant", "count-differs keyed"},
			Repairs: []string{"key-count-differs tenant"},
			Plant:   p(func(p *planting) { p.do("hset", "ks", "2tenant", "7 1 1\nkeyed\n") })},
		{Name: "a turn of nobody in the line of a key", Want: []string{"entry-without-job nobody"},
			Plant: p(func(p *planting) {
				p.do("hset", "ks", "2tenant", "2 1 1\nkeyed\nnobody\n")
				p.do("hincrby", "m", "keyed", 1)
			})},
		{Name: "a count of no key", Want: []string{"entry-malformed nonsense"},
			Plant: p(func(p *planting) { p.do("hset", "ks", "nonsense", "0 1 1\nx\n") })},
		{Name: "a piece that is first and not with its numbers", Want: []string{"entry-malformed 2tenant 1"},
			Plant: p(func(p *planting) { p.do("hset", "kl", "2tenant\x001", "keyed\n") })},
		{Name: "a piece of no line", Want: []string{"entry-malformed nonsense"},
			Plant: p(func(p *planting) { p.do("hset", "kl", "nonsense", "x\n") })},
		{Name: "a job that ended and stands in line by its key", Want: []string{"job-listed-twice dead"},
			Plant: p(func(p *planting) {
				p.do("hset", "ks", "2tenant", "2 1 2\nkeyed\n")
				p.do("hset", "kl", "2tenant\x002", "dead\n")
				p.do("hincrby", "m", "keyed", 1)
			})},
		{Name: "a key without a turn", Want: []string{"key-without-turn tenant"}, Plant: p(func(p *planting) { p.do("zrem", "k2", "tenant") })},
		{Name: "a key that nothing keeps back", Want: []string{"key-without-turn tenant"},
			Plant: p(func(p *planting) { p.do("zrem", "k2", "tenant"); p.do("zadd", "kb", 9000000000000001, "tenant") })},
		{Name: "a key that is kept back and has no jobs", Want: []string{"key-without-turn other"},
			Plant: p(func(p *planting) { p.do("zadd", "kb", 9000000000000001, "other") })},
		{Name: "a slot of a key that nobody has", Want: []string{"key-count-differs dead"},
			Plant: p(func(p *planting) { p.do("zadd", "ka", 0, "tenant\x00dead") })},
		{Name: "an active job that does not count for its key", Want: []string{"key-count-differs active"},
			Plant: p(func(p *planting) { p.do("zrem", "ka", "tenant\x00active") })},
		{Name: "a head of a key that is gone", Want: []string{"key-head-wrong nobody"},
			Plant: p(func(p *planting) { p.do("hset", "kh", "tenant", "nobody") })},
		{Name: "a job that ended among those of its key that did not", Want: []string{"key-entry-missing dead", "key-entry-without-job dead"},
			Plant: p(func(p *planting) { p.do("zrem", "ke", "tenant\x00dead"); p.do("zadd", "i", 0, "tenant\x00dead") })},
		{Name: "a key with pending jobs that is not listed", Want: []string{"key-entry-missing tenant"},
			Plant: p(func(p *planting) { p.do("zrem", "i", "tenant\x00") })},
		{Name: "a pending job that the index of keys leads to", Want: []string{"key-entry-without-job keyed"},
			Plant: p(func(p *planting) { p.do("zadd", "i", 0, "tenant\x00keyed") })},
		{Name: "a job of a key that ended and did not", Want: []string{"key-entry-without-job dead"},
			Plant: p(func(p *planting) { p.do("zadd", "i", 0, "tenant\x00dead") })},
		{Name: "a policy of a key that is not listed", Want: []string{"key-entry-missing other", "rules-differ flow"},
			Plant: p(func(p *planting) { p.do("hset", "kp", "other", "0,0,0,0,0,0,5") })},
		{Name: "limits that claims do not go by", Want: []string{"rules-differ flow"},
			Plant: p(func(p *planting) { p.do("hset", "m", "key_max_active", 5) })},
	}
}

// Also while the queue is paused, a key that claims still have to look at again is no
// finding, and one that may start a job again is in a ring.
func TestExamine_KeysOfAPausedQueue(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	yes, no, one, five := true, false, int64(1), int64(5)
	policy := func(r broker.PolicyRequest) {
		t.Helper()
		r.Queue = "q"
		if _, err := b.Policy(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if findings := examinetest.Examine(t, b, broker.ExamineRequest{Now: at(0), Queue: "q"}); len(findings) > 0 {
			t.Errorf("examination after %+v\ngot  %+v\nwant no finding", r, findings)
		}
	}
	keyed := func(id, key string) {
		t.Helper()
		j := job("q", id)
		j.Body.Key = key
		enqueue(t, b, j)
	}
	register(t, b, "w", "q")
	policy(broker.PolicyRequest{KeyMaxActive: &one})
	policy(broker.PolicyRequest{Key: "c", Paused: &yes})
	keyed("a1", "a")
	keyed("b1", "b")
	claimAt(t, b, at(0), "w", 9, "q")
	keyed("a2", "a")
	policy(broker.PolicyRequest{Paused: &yes}) // claims have to look at a again
	keyed("b2", "b")
	keyed("c1", "c")
	policy(broker.PolicyRequest{Key: "c", Paused: &no})
	policy(broker.PolicyRequest{KeyMaxActive: &five}) // and at b, after a
	policy(broker.PolicyRequest{Paused: &no})
	claimed := 0
	for more := true; more; {
		got := claimAt(t, b, at(0), "w", 9, "q")
		claimed += len(got.Jobs)
		more = got.More
	}
	if claimed != 3 {
		t.Errorf("claims after the queue was resumed: %d jobs, want 3", claimed)
	}
}
