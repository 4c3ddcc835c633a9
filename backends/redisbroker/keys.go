package redisbroker

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// keyNames are the names of a queue's keys, as they are stored. The package comment
// says what each key has. r* stands for the four ready lists, r2 for the ready list of
// normal priority, k* for the four rings, p* for p with each possible number of buckets,
// b* for the body buckets, which must be last. gw, gk and gn are w, k and n of the
// queue's group.
var keyNames = []string{"m", "p", "h", "a", "w", "wi", "k", "s", "x", "n", "c", "u", "i", "ids",
	"z", "y", "d", "dc", "ds", "f", "g", "l", "v", "t", "o", "kl", "ks", "kb", "kd", "ka", "ke", "kp", "kr", "kh", "tq",
	"gw", "gk", "gn", "p*", "r2", "r*", "k*", "b*"}

// groupKeys are those of keyNames that the queues of a group share.
var groupKeys = []string{"gw", "gk", "gn"}

// keyWords are the words by which scripts name the keys. The stored names are short, since
// each call carries them; the words cost nothing, since they are replaced at load.
var keyWords = map[string]string{
	"record": "m", "plain": "p", "plain*": "p*", "token": "t", "idle_hint": "tq",
	"bodies*": "b*", "heads": "h", "ready*": "r*", "normal": "r2", "void_entries": "v",
	"scheduled": "z", "retry": "y", "leases": "a", "held": "o", "cancels": "c",
	"dead": "d", "causes": "dc", "suppressed": "ds", "completed": "f", "cancelled": "g",
	"unique": "u", "remembered": "ids", "by_key": "i", "lapses": "l",
	"key_pieces": "kl", "key_spans": "ks", "rings*": "k*", "blocked": "kb", "rechecked": "kd", "active_keys": "ka", "ended_keys": "ke",
	"key_policies": "kp", "key_rates": "kr", "key_heads": "kh",
	"workers": "s", "worker_infos": "wi", "lease_ends": "w", "lease_counts": "k", "ended_workers": "x", "unreclaimed": "n",
	"group_ends": "gw", "group_counts": "gk", "group_news": "gn",
	"marks": "h", "fences": "n", // keys of a group of marks, which also has lapses
}

// queue is what this process knows about a queue. It has only some hundred bytes, since a
// process may know many queues. Only the atomic fields change; if the number of buckets
// turns out to be another one, the queue gets another value.
type queue struct {
	name    string
	base    string // the beginning of its keys
	buckets int
	used    atomic.Int64 // the uptime when it was last needed
	listed  atomic.Bool  // this process made sure that the list of queues has it
	seen    atomic.Bool  // it existed at the last call
	limited atomic.Int64 // the uptime when enqueue_plain.lua last refused it; 0 for never
	ahead   atomic.Int64 // the store's clock minus uptime, in µs; 0 if not known
	heard   atomic.Int64 // the uptime when ahead was set
}

// newQueue returns the queue whose keys begin with base.
func newQueue(base, name string, buckets int) *queue {
	return &queue{name: name, base: base, buckets: buckets}
}

// channel returns the channel of a queue's events. Channels belong to no database, so the name has the database.
func (b *Broker) channel(queue string) string { return b.queue(queue).base + "e" + b.store.database }

// The keys for which elements of keyNames with a star stand.
var (
	readyNames  = numbered("r", 1, priorities)
	ringNames   = numbered("k", 1, priorities)
	bucketNames = numbered("b", 0, maxBuckets)
)

func numbered(name string, first, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = name + strconv.Itoa(first+i)
	}
	return names
}

// keyList collects the keys of one call.
type keyList struct{ texts }

func (l *keyList) add(base, name string) {
	l.buf = append(append(l.buf, base...), name...)
	l.cut()
}

// addAll adds the keys that an element of keyNames stands for.
func (l *keyList) addAll(q *queue, name string) {
	switch name {
	case "r*":
		l.addEach(q, readyNames)
	case "k*":
		l.addEach(q, ringNames)
	case "b*":
		l.addEach(q, bucketNames[:q.buckets])
	case "gw", "gk", "gn": // of the group
		l.add(q.base[:strings.Index(q.base, "}:")+2], name[1:])
	case "p*": // for each possible number of buckets
		for n := range maxBuckets {
			l.add(q.base, plainKey(n+1))
		}
	case "p":
		l.add(q.base, plainKey(q.buckets))
	default:
		l.add(q.base, name)
	}
}

func (l *keyList) addEach(q *queue, names []string) {
	for _, name := range names {
		l.add(q.base, name)
	}
}

// keys returns the keys for which an element of keyNames stands.
func (q *queue) keys(name string) []string {
	var l keyList
	l.addAll(q, name)
	var keys []string
	for _, key := range l.split(nil) {
		keys = append(keys, string(key))
	}
	return keys
}

// plainKey returns the name of the key p, which depends on the number of buckets: if it exists, the
// caller's assumption about that number is right.
func plainKey(buckets int) string {
	if buckets == 1 {
		return "p"
	}
	return "p" + strconv.Itoa(buckets)
}

// limitedFor is how long a queue counts as limited after enqueue_plain.lua refused it. Then the fast
// script is tried again, since the limit may be gone.
const limitedFor = 10 * time.Second

// see records that the queue exists.
func (q *queue) see() {
	if !q.seen.Load() {
		q.seen.Store(true)
	}
}

// absent records that the queue does not exist, and forgets what was known about it.
func (q *queue) absent() {
	q.seen.Store(false)
	q.limited.Store(0)
}

// limit records that enqueue_plain.lua refused the queue. If this process knew that the queue
// existed, it has a limit or is paused. Otherwise it may not exist yet; the script does not
// distinguish these.
func (q *queue) limit(seen bool) {
	if seen {
		q.limited.Store(uptime())
	}
}

func (q *queue) isLimited() bool {
	at := q.limited.Load()
	return at != 0 && uptime()-at < limitedFor.Microseconds()
}

// started is the origin of uptime; only its monotonic reading is used.
var started = time.Now()

func uptime() int64 { return time.Since(started).Microseconds() }

// told records the store's time, which an answer has just reported.
func (q *queue) told(at int64) {
	up := uptime()
	q.ahead.Store(at - up)
	q.heard.Store(up)
}

// clockTrust is for how long the store's time is extrapolated before it is read again, since the
// store's clock may be set meanwhile. If bodies already have their time of creation, the script need
// not add it: then batches of 100 enqueue 2.7 times as many jobs per second as asynq's, otherwise 2.2
// times as many.
const clockTrust = time.Second

// time returns the store's time as far as this process knows it, or 0 if there was no answer yet. It is
// a little too early, by the time that an answer took to arrive. time also reports whether the last
// answer is recent.
func (q *queue) time() (at int64, recent bool) {
	ahead, up := q.ahead.Load(), uptime()
	if ahead == 0 {
		return 0, false
	}
	return ahead + up, up-q.heard.Load() < clockTrust.Microseconds()
}

// baseOf returns the beginning of a queue's keys. The hash tag of its group decides which node of
// a Cluster has them.
func baseOf(prefix, queue string) string {
	return prefix + ":{" + tagsOf(prefix)[groupOf(queue)] + "}:" + queue + ":"
}

// key returns the key of this name, which must stand for a single key.
func (q *queue) key(name string) string {
	if name == "p" || slices.Contains(groupKeys, name) {
		return q.keys(name)[0]
	}
	return q.base + name
}

// bucketName names the bucket for a slot.
func (q *queue) bucketName(slot int) string { return bucketNames[slot%q.buckets] }

// ulidSize is the length of a ULID, the form of IDs that no caller chose.
const ulidSize = 26

// slotOf returns a number that, modulo the number of buckets, is the bucket of a job's body.
// lib/bodies.lua computes the same, since claims learn IDs only inside the script.
func slotOf(id string) int {
	if len(id) != ulidSize {
		return 0
	}
	return int(id[7])*11 + int(id[8])/4
}

// stretch is a number of consecutive jobs with the same slot.
type stretch struct{ slot, jobs int }

// cancels, added to the name of a queue's channel for events, is the name of the channel for
// cancellations, to which every worker listens.
const cancels = "c"

// queueOfChannel returns the queue whose events a channel carries, and whether the events are
// cancellations.
func queueOfChannel(prefix, channel string) (queue string, cancel bool) {
	channel, cancel = strings.CutSuffix(channel, cancels)
	return queueOfKey(prefix, channel), cancel
}

// queueOfKey returns the queue that has a key, or "" for other keys.
func queueOfKey(prefix, key string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "}:")
	end := strings.LastIndexByte(rest, ':')
	if end < 0 || !strings.HasPrefix(key, baseOf(prefix, rest[:end])) {
		return ""
	}
	return rest[:end]
}
