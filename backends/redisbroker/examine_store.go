package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// storePart examines what does not belong to a queue.
func (e *examiner) storePart(ctx context.Context) (pos string, err error) {
	switch e.at.Part {
	case "server":
		return "", e.servers(ctx)
	case "queues":
		return e.keyspace(ctx)
	}
	slot, at, _ := strings.Cut(e.at.Pos, "/")
	n, _ := strconv.Atoi(slot)
	if n < 0 || n >= markSlots {
		return "", nil
	}
	s := &step{script: examineMarksScript, keys: e.b.marks[n], now: nowArg(e.req.Now), args: []any{"marks", at, e.req.Limit, e.req.Fix}}
	_, at, _, err = e.read(e.b.runOne(ctx, s), s)
	if at == "" {
		n++
	}
	if n == markSlots || err != nil {
		return "", err
	}
	return strconv.Itoa(n) + "/" + at, nil
}

// servers examines the settings of every server.
func (e *examiner) servers(ctx context.Context) error {
	var mu sync.Mutex
	err := await(ctx, func() error {
		return e.b.store.each(ctx, func(ctx context.Context, node *redis.Client) error {
			info, err := serverInfo(ctx, node)
			if err != nil {
				return err
			}
			save := "not told"
			if reply, err := node.ConfigGet(ctx, "save").Result(); err == nil {
				save = reply["save"]
			}
			begun := time.Now()
			clock, err := node.Time(ctx).Result()
			if err != nil {
				return err
			}
			skew := clock.Sub(begun)
			if skew > 0 {
				skew = max(0, time.Until(clock))
			}
			mu.Lock()
			defer mu.Unlock()
			e.Records++
			e.Findings = append(e.Findings, settings(node.Options().Addr, info, save, skew)...)
			return nil
		})
	})
	if err == nil && e.b.store.cluster != nil {
		err = e.slots(ctx)
	}
	return err
}

// maxSkew is the largest difference between clocks that is not reported.
const maxSkew = 10 * time.Second

// settings returns what is wrong with a server, by its INFO; save is its setting of that name.
func settings(addr string, info map[string]string, save string, skew time.Duration) (findings []broker.Finding) {
	add := func(code, format string, args ...any) {
		findings = append(findings, finding(code, "", addr, fmt.Sprintf(format, args...)))
	}
	if v := info["redis_version"]; v != "" && !atLeast(v, 6, 2) {
		add("server-too-old", "it is Redis %s; 6.2 is the oldest that will do", v)
	}
	if info["role"] == "slave" {
		add("server-read-only", "it is a replica")
	}
	if p := info["maxmemory_policy"]; strings.HasPrefix(p, "allkeys-") {
		add("server-evicts-jobs", "its maxmemory-policy is %s", p)
	}
	if info["aof_enabled"] == "0" && save == "" {
		add("server-not-persistent", "appendonly is off and save is empty")
	}
	for _, field := range []string{"rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"} {
		if v := info[field]; v != "" && v != "ok" {
			add("server-persistence-fails", "%s is %s", field, v)
		}
	}
	used, _ := strconv.ParseFloat(info["used_memory"], 64)
	if most, _ := strconv.ParseFloat(info["maxmemory"], 64); most > 0 && used > 0.9*most {
		add("server-nearly-full", "it uses %.0f%% of its maxmemory", 100*used/most)
	}
	if skew.Abs() > maxSkew {
		add("clocks-differ", "its clock differs by %v from that of this machine", skew.Round(time.Second))
	}
	return findings
}

// slots checks that every slot of a Cluster has a server.
func (e *examiner) slots(ctx context.Context) error {
	return await(ctx, func() error {
		reply, err := e.b.store.cluster.ClusterInfo(ctx).Result()
		if err != nil {
			if answered(err) {
				return nil // the user of this connection may not run CLUSTER INFO
			}
			return err
		}
		info := parseInfo(reply)
		if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != "16384" {
			e.note("cluster-slots-uncovered", "", fmt.Sprintf("the state of the Cluster is %s, %s of its 16384 slots are in order",
				info["cluster_state"], info["cluster_slots_ok"]), "")
		}
		return nil
	})
}

// keyspace scans the keys of a server for queues that are not listed or have no record. The cursor is
// the number of the server and the cursor of SCAN.
func (e *examiner) keyspace(ctx context.Context) (pos string, err error) {
	server, at, _ := strings.Cut(e.at.Pos, "/")
	n, _ := strconv.Atoi(server)
	cursor, _ := strconv.ParseUint(at, 10, 64)
	nodes, err := e.b.store.masters(ctx)
	if err != nil || n < 0 || n >= len(nodes) {
		return "", err
	}
	var keys []string
	err = await(ctx, func() error {
		keys, cursor, err = nodes[n].Scan(ctx, cursor, globbed.Replace(e.b.config.Prefix+":{")+"*", broker.MaxExamine).Result()
		return err
	})
	if err != nil {
		if answered(err) {
			return "", nil // the user of this connection may not run SCAN
		}
		return "", err
	}
	e.Records = len(keys)
	of := make(map[string][]string)
	for _, key := range keys {
		if name := queueOfKey(e.b.config.Prefix, key); broker.CheckQueue(name) == nil {
			of[name] = append(of[name], key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if err := e.known(ctx, name, of[name]); err != nil {
			return "", err
		}
	}
	if cursor == 0 {
		n++
	}
	if n == len(nodes) && cursor == 0 {
		return "", nil
	}
	return strconv.Itoa(n) + "/" + strconv.FormatUint(cursor, 10), nil
}

// globbed escapes a prefix for a pattern of SCAN.
var globbed = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// known examines a queue that has keys. The queue may be created or removed at the same time, so a
// problem counts only if it is seen twice.
func (e *examiner) known(ctx context.Context, name string, keys []string) error {
	record := e.b.queue(name).key("m")
	more := make([]any, 0, len(keys))
	for _, key := range keys[1:] {
		more = append(more, key)
	}
	look := func() (listed, recorded, there bool, err error) {
		err = errors.Join(
			e.b.do(ctx, "exists", keys[0], yes(&there), more...),
			e.b.do(ctx, "hexists", record, yes(&recorded), "v"), // an enqueue may create a record that only counts bytes
			e.b.do(ctx, "sismember", e.b.listKey(), yes(&listed), name))
		return listed, recorded, there, err
	}
	listed, recorded, there, err := look()
	if err != nil || !there || listed && recorded {
		return err
	}
	if err := pause(ctx, tokenPause); err != nil {
		return err
	}
	if listed, recorded, there, err = look(); err != nil || !there || listed && recorded {
		return err
	}
	first, buckets, err := e.present(ctx, name)
	if err != nil || !slices.Contains(keys, first) { // several servers or pages may have keys of the queue: report it once
		return err
	}
	e.at.Queue = name
	defer func() { e.at.Queue = "" }()
	if !recorded {
		e.note("queue-record-missing", "", "keys of the queue are there, such as "+first+", and its record m is not",
			"no job is left in it: delete its keys")
		if buckets > 0 {
			err = e.repaired(ctx, func(ctx context.Context) error { return e.b.remake(ctx, name, buckets) })
		}
	}
	if err == nil && !listed {
		e.note("queue-not-listed", "", "the queue is not in the set "+e.b.listKey(), "")
		err = e.repaired(ctx, func(ctx context.Context) error { return e.b.enlist(ctx, []any{name}) })
	}
	return err
}

// present returns the first of a queue's keys that exists, and the number of buckets. The number is
// the one in the name of the key p, or else one that fits the bodies found in the buckets. It is 0 if
// there are neither.
func (e *examiner) present(ctx context.Context, name string) (first string, buckets int, err error) {
	base := baseOf(e.b.config.Prefix, name)
	look := func(key string) (there bool) {
		if err == nil {
			err = e.b.do(ctx, "exists", key, yes(&there))
		}
		if there && first == "" {
			first = key
		}
		return there
	}
	plain, found := 0, make(map[int][]string) // found has IDs by bucket
	for n := 1; n <= maxBuckets; n++ {
		if look(base + plainKey(n)) {
			plain = n
		}
	}
	q := newQueue(base, name, maxBuckets)
	for _, kind := range keyNames {
		if kind == "p*" || slices.Contains(groupKeys, kind) {
			continue
		}
		for n, key := range q.keys(kind) {
			if look(key) && kind == "b*" {
				err = errors.Join(err, e.b.do(ctx, "hrandfield", key, func(c *call) (err error) {
					found[n], err = c.cmd.StringSlice()
					return err
				}, sampledBodies))
			}
		}
	}
	if buckets = plain; plain == 0 && len(found) > 0 {
		buckets = e.b.likelyBuckets(found)
	}
	return first, buckets, err
}

// sampledBodies is how many bodies of each bucket are read to find the number of buckets.
const sampledBodies = 10

// likelyBuckets returns a number of buckets for which every ID is in the right bucket: the configured
// number if it fits, or else the lowest number that fits.
func (b *Broker) likelyBuckets(found map[int][]string) int {
	fits := func(buckets int) bool {
		for n, ids := range found {
			for _, id := range ids {
				if slotOf(id)%buckets != n {
					return false
				}
			}
		}
		return true
	}
	if fits(b.config.Buckets) {
		return b.config.Buckets
	}
	for n := 1; n <= maxBuckets; n++ {
		if fits(n) {
			return n
		}
	}
	return 1 + slices.Max(slices.Collect(maps.Keys(found)))
}

// repaired repairs the last finding if the request has Fix.
func (e *examiner) repaired(ctx context.Context, repair func(context.Context) error) error {
	if !e.req.Fix {
		return nil
	}
	if err := repair(ctx); err != nil {
		return err
	}
	f := &e.Findings[len(e.Findings)-1]
	f.Fixed, f.Left = true, ""
	return nil
}

// remake writes the missing record of a queue. The other parts of an examination correct the rest of
// the record.
func (b *Broker) remake(ctx context.Context, name string, buckets int) error {
	b.learn(name, buckets)
	return b.do(ctx, "hset", b.queue(name).key("m"), nil, "v", layoutVersion, "B", buckets)
}

func yes(answer *bool) func(*call) error {
	return func(c *call) error {
		n, err := c.cmd.Int()
		*answer = n > 0
		return err
	}
}
