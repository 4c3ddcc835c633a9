package redisbroker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// entries counts the entries of a key, without guards.
func entries(client *redis.Client, key, kind string) (n int, err error) {
	ctx := context.Background()
	switch kind {
	case "hash":
		var fields []string
		fields, err = client.HKeys(ctx, key).Result()
		n = len(slices.DeleteFunc(fields, func(s string) bool { return s == "" }))
	case "zset":
		var members []string
		members, err = client.ZRange(ctx, key, 0, -1).Result()
		n = len(slices.DeleteFunc(members, func(s string) bool { return s[0] == 0 }))
	case "list":
		var all int64
		all, err = client.LLen(ctx, key).Result()
		n = int(all)
	default:
		n = 1
	}
	return n, err
}

func TestKeys_NothingIsLeftWhenEverythingIsGone(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{"server": client(t), "cluster": clusterClient(t)} {
		t.Run(name, func(t *testing.T) {
			b := open(t, client)
			(&life{t: t, b: b, queue: "q"}).run()

			left := make(map[string]int)
			err := walk(client, b.config.Prefix, func(node *redis.Client, key, kind string) error {
				n, err := entries(node, key, kind)
				if n > 0 {
					left[strings.TrimPrefix(key, b.config.Prefix+":")] = n
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			// These stay: the queue's record, its name in the list, the fences of marks. The next claim
			// removes a wake token that another claim left for a job that was to fall due.
			for key := range left {
				if key == "queues" || strings.HasSuffix(key, "}:q:t") || strings.HasSuffix(key, "}:q:m") || strings.HasSuffix(key, "}:q:p64") ||
					strings.HasPrefix(key, "marks:") && strings.HasSuffix(key, ":n") {
					delete(left, key)
				}
			}
			if len(left) > 0 {
				t.Errorf("entries that lead nowhere, by key: %v\n%s", left, dump(client, b.config.Prefix))
			}

			results, err := b.Operate(t.Context(), removal("q"))
			if err != nil || results[0].Err != nil {
				t.Fatalf("removing the queue: %v %v", results, err)
			}
			keys := make(map[string]string)
			err = walk(client, b.config.Prefix, func(_ *redis.Client, key, kind string) error {
				if !strings.Contains(key, ":marks:") {
					keys[key] = kind
				}
				return nil
			})
			if err != nil || len(keys) > 0 {
				t.Errorf("keys after the queue was removed: %v, %v", slices.Sorted(maps.Keys(keys)), err)
			}
		})
	}
}

func TestKeys_GuardsKeepHotStructuresOutOfTheirCompactForm(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	j := job("q", "later")
	j.Delay = 1e9
	keyed := job("q", "keyed")
	keyed.Body.Key = "key"
	started := job("q", "started")
	started.Body.Key = "other"
	rules(t, b, broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: time.Hour}})
	enqueue(t, b, started, job("q", "a"), j)
	l := &life{t: t, b: b, queue: "q"}
	l.settle(at(0), "w", claimAt(t, b, at(0), "w", 2, "q").Jobs, broker.Retry(time.Hour, broker.Failure{Message: "once more"}))
	enqueue(t, b, keyed)
	want := map[string]string{"a": "hashtable", "h": "hashtable", "k": "hashtable", "s": "hashtable", "kr": "hashtable",
		"w": "skiplist", "z": "skiplist", "y": "skiplist", "k2": "skiplist"}
	for key, encoding := range want {
		got, err := c.ObjectEncoding(t.Context(), baseOf(b.config.Prefix, "q")+key).Result()
		if err != nil || got != encoding {
			t.Errorf("encoding of %s: got %q, %v, want %q", key, got, err, encoding)
		}
	}
}

// A program that does not know the key o leaves a held job alone, since its lease is of no
// worker that could settle it, retire or run out.
func TestKeys_AHeldJobIsLeasedToNobody(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	enqueue(t, b, job("q", "a"))
	l := &life{t: t, b: b, queue: "q"}
	l.operate(broker.Operation{Kind: broker.OpHold, Holder: "mover"}, "a")
	key := baseOf(b.config.Prefix, "q")
	if lease, err := c.HGet(t.Context(), key+"a", "a").Result(); lease != "21:\n" || err != nil {
		t.Errorf("the lease of a held job is %q, %v; want one at its epoch without a worker", lease, err)
	}
	if held, err := c.HGet(t.Context(), key+"o", "a").Result(); held != "1:mover" || err != nil {
		t.Errorf("what is noted of a held job is %q, %v; want that it was pending, and for whom", held, err)
	}
}

func TestKeys_BucketsAreTheSameInGoAndLua(t *testing.T) {
	t.Parallel()
	c := client(t)
	source, err := expand("lib/bodies.lua", make(map[string]bool))
	if err != nil {
		t.Fatal(err)
	}
	source += "\nreturn bucket({buckets = tonumber(ARGV[2])}, ARGV[1]) - 1"
	at := func(id string, n int) int {
		got, err := c.Eval(t.Context(), source, nil, id, n).Int()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for name, id := range map[string]func(int) string{
		"ULIDs": func(i int) string { return ulid.MustNew(uint64(1e12+i*347), ulid.DefaultEntropy()).String() },
		"given": func(i int) string {
			return fmt.Sprintf("%.*s", i%12+1, fmt.Sprintf("%02d\xff\x80 order-%d-äöü-%d", i, i*i, i))
		},
		"as long": func(i int) string { return fmt.Sprintf("%02d\x00\xff order %-15d", i, i) },
	} {
		used := make(map[int]bool)
		for i := range 200 {
			for _, n := range []int{1, 2, 16, maxBuckets} {
				id := id(i)
				if got, want := at(id, n), slotOf(id)%n; got != want {
					t.Fatalf("bucket of %q of %d: Lua says %d, Go says %d", id, n, got, want)
				}
				if n == 16 {
					used[at(id, n)] = true
				}
			}
		}
		if name == "ULIDs" && len(used) != 16 || name == "given" && len(used) != 1 {
			t.Errorf("%s: 200 IDs are in %d of 16 buckets", name, len(used))
		}
	}
}

func TestKeys_AKeyOfSomethingElseIsNeverTouched(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	foreign := baseOf(b.config.Prefix, "q") + "r3"
	if err := c.Set(t.Context(), foreign, "mine", 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job("q", "a")}})
	if err == nil || broker.MayHaveApplied(err) || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("Enqueue beside a foreign key: got %v, want a refusal that names the prefix", err)
	}
	if v, err := c.Get(t.Context(), foreign).Result(); v != "mine" || err != nil {
		t.Errorf("the foreign key holds %q, %v", v, err)
	}
}

// A job that was retried has a head, which is removed with the job, whatever its options
// and its outcome.
func TestKeys_TheHeadOfAJobGoesWithIt(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	forms := map[string]func(*broker.NewJob){
		"plain":  func(*broker.NewJob) {},
		"keyed":  func(j *broker.NewJob) { j.Body.Key = "k" },
		"unique": func(j *broker.NewJob) { j.Body.Unique.Key = "u" },
	}
	l := &life{t: t, b: b, queue: "q"}
	for name, change := range forms {
		for outcome, end := range map[string]broker.Outcome{"completed": broker.Complete(nil), "cancelled": broker.Cancel(broker.Failure{})} {
			j := job("q", name+outcome)
			change(&j)
			enqueue(t, b, j)
			l.settle(at(0), "w", claimAt(t, b, at(0), "w", 1, "q").Jobs, broker.Retry(0, broker.Failure{Message: "x"}))
			l.settle(at(1), "w", claimAt(t, b, at(1), "w", 1, "q").Jobs, end)
			left, err := c.HKeys(t.Context(), b.queue("q").key("h")).Result()
			if err != nil || len(left) != 1 {
				t.Errorf("after a %s job was retried and %s the heads %q are left, %v; want the guard alone", name, outcome, left, err)
			}
		}
	}
}

// After a claim of many jobs with a key, look-ups in the set of active jobs are no scans.
func TestKeys_ManyActiveJobsWithAKeyAreFoundWithoutAScan(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	jobs := benchJobs(0, 60)
	for i := range jobs {
		jobs[i].Queue, jobs[i].Body.Key = "q", "key"
	}
	enqueue(t, b, jobs...)
	claimAt(t, b, at(0), "w", len(jobs), "q")
	key := b.queue("q").key("ka")
	form, err := c.ObjectEncoding(t.Context(), key).Result()
	if n := c.ZCard(t.Context(), key).Val(); form != "skiplist" || int(n) != len(jobs) || err != nil {
		t.Errorf("%d active jobs are in %d members in the form %s, %v; want as many, and skiplist", len(jobs), n, form, err)
	}
}
