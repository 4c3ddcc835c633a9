package redisbroker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// died stores dead jobs named d00, d01, and so on, with an error each, and returns their IDs.
func died(t *testing.T, b *Broker, n int) (ids []string) {
	t.Helper()
	var jobs []broker.NewJob
	for i := range n {
		ids = append(ids, fmt.Sprintf("d%02d", i))
		jobs = append(jobs, deadOf(ids[i], at(i+10), "busy"))
	}
	enqueue(t, b, jobs...)
	return ids
}

func deadOf(id string, end time.Time, message string) broker.NewJob {
	j := dead(id, "mail", broker.ReasonRetries, end)
	j.Restore.Head.Errors.Entries = []broker.Failure{{Message: message}}
	return j
}

// blocks returns the blocks of errors in the index of dead jobs.
func blocks(t *testing.T, c *redis.Client, b *Broker) []string {
	t.Helper()
	return c.ZRangeArgs(t.Context(), redis.ZRangeArgs{Key: b.queue("q").key("dc"), Start: "[m", Stop: "(n", ByLex: true}).Val()
}

// replace stores a block instead of another.
func replace(t *testing.T, c *redis.Client, b *Broker, old, block string) {
	t.Helper()
	key := b.queue("q").key("dc")
	if c.ZRem(t.Context(), key, old).Val() != 1 || c.ZAdd(t.Context(), key, redis.Z{Member: block}).Err() != nil {
		t.Fatalf("%q is not replaced", old)
	}
}

// Imported errors may be longer than those that servers store.
func TestErrors_LongOnes(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	long := "busy" + strings.Repeat("x", 20_000)
	for i, j := range []broker.NewJob{deadOf("a", at(1), "busy"), deadOf("c", at(3), "busy"), deadOf("b", at(2), long)} {
		enqueue(t, b, j)
		if found := examinetest.Examine(t, b, broker.ExamineRequest{Queue: "q"}); len(found) > 0 {
			t.Errorf("after %d jobs: %+v", i+1, found)
		}
	}
	if got, _ := listDead(t, b, broker.Query{ErrorText: "busy"}, 2); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("found %q", got)
	}
	refs := []broker.Ref{{Queue: "q", ID: "b", Epoch: broker.AnyEpoch}}
	r, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpDelete, Refs: refs})
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	if found := examinetest.Examine(t, b, broker.ExamineRequest{Queue: "q"}); len(found) > 0 {
		t.Errorf("after a removal: %+v", found)
	}
}

// A repair takes the entry that is wrong and leaves the others of its block where they are.
func TestErrors_ARepairLeavesTheOthers(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	ids := died(t, b, 11)
	first := blocks(t, c, b)[0]
	wrong := fmt.Sprintf("%016dgone\x004\x00busy", at(1).UnixMicro())
	n := len(first) - len("0000\x00")
	var last int
	_, _ = fmt.Sscan(first[n:n+4], &last)
	replace(t, c, b, first, "m\x00"+wrong+first[2:n]+fmt.Sprintf("%04d\x09", last+len(wrong)))
	for _, fix := range []bool{false, true} {
		found := examinetest.Examine(t, b, broker.ExamineRequest{Queue: "q", Fix: fix})
		if len(found) != 1 || found[0].ID != "gone" || found[0].Fixed != fix {
			t.Errorf("repair %t: %+v, want a finding about gone", fix, found)
		}
	}
	if found := examinetest.Examine(t, b, broker.ExamineRequest{Queue: "q"}); len(found) > 0 {
		t.Errorf("after the repair: %+v", found)
	}
	if got, _ := listDead(t, b, broker.Query{ErrorText: "busy"}, 100); !slices.Equal(got, ids) {
		t.Errorf("found %q, want %q", got, ids)
	}
}

// A search passes over a block that cannot be read, on pages of all sizes and in both directions.
func TestErrors_OneThatCannotBeReadIsPassedOver(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	ids := died(t, b, 32)
	second := blocks(t, c, b)[1]
	replace(t, c, b, second, strings.Replace(second, "\x004\x00", "\x00four\x00", 1))
	c.ZAdd(t.Context(), b.queue("q").key("dc"), redis.Z{Member: "m\x0017x0000000000000x\x004\x00busy0003\x01"})
	want := slices.Concat(ids[:8], ids[16:])
	for _, newest := range []bool{false, true} {
		for _, limit := range []int{1, 3, 8, 9, 100} {
			if got, _ := listDead(t, b, broker.Query{ErrorText: "busy", Newest: newest}, limit); !slices.Equal(got, want) {
				t.Errorf("newest first %t, pages of %d: %q, want %q", newest, limit, got, want)
			}
		}
		slices.Reverse(want)
	}
	examinetest.Examine(t, b, broker.ExamineRequest{Queue: "q", Fix: true})
	if got, _ := listDead(t, b, broker.Query{ErrorText: "busy"}, 100); !slices.Equal(got, ids) {
		t.Errorf("after a repair: %q, want %q", got, ids)
	}
}
