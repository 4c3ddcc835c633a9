package redisbroker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

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
	const jobs = 20_000
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
			// The server's scan may return a few more records than requested.
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
	// Delete a ready list.
	base := baseOf(b.config.Prefix, "q")
	if err := c.Del(t.Context(), base+"r2").Err(); err != nil {
		t.Fatal(err)
	}
	if found, _ := examine(true); len(found) != jobs*9/10 || found[0].Code != "job-without-entry" || !found[0].Fixed {
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

// Two examinations that repair at the same time, in alternate steps, repair a job once.
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

// A step may run in another process than the one before.
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
	if req.Cursor != "" || len(found) != 1 || found[0].Code != "job-without-entry" {
		t.Errorf("found %+v, and the cursor at last was %q", found, req.Cursor)
	}
	for _, req := range []broker.ExamineRequest{{Cursor: "x"}, {Cursor: "x:jobs\n{\n"}, {Queue: "q", Cursor: "x:jobs\nr\n"}, {Limit: -1},
		{Queue: "{"}} {
		if _, err := handles[0].Examine(t.Context(), req); err == nil || broker.MayHaveApplied(err) {
			t.Errorf("Examine(%+v) answered %v, want ErrInvalid", req, err)
		}
	}
}

func TestExamine_ServersThatLoseJobsAreFound(t *testing.T) {
	t.Parallel()
	good := "redis_version:7.2.0\r\nrole:master\r\nmaxmemory:1000\r\nused_memory:100\r\nmaxmemory_policy:noeviction\r\n" +
		"aof_enabled:1\r\nrdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\n"
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

// A user with read access only finds everything, except what the server does not show to
// that user.
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
	if err := admin.Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~"+name+":*", "+@read", "+@connection", "+evalsha",
		"+script|load", "+script|exists", "+time", "-info", "-config").Err(); err != nil {
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
