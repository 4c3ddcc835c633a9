package redisbroker

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// keyNames are the keys of a queue, as they are stored. The package comment says
// what each holds. r* stands for the four ready lists, r2 for the one of normal
// priority among them, k* for the four rings, p* for p by whatever number of buckets,
// b* for the body buckets, which come last.
var keyNames = []string{"m", "p", "h", "a", "w", "wi", "k", "s", "x", "n", "c", "u", "i", "ids",
	"z", "y", "d", "ds", "f", "g", "l", "v", "t", "o", "kl", "ks", "kb", "kd", "ka", "ke", "kp", "kr", "kh", "tq", "p*", "r2", "r*", "k*",
	"b*"}

// keyWords are what scripts call the keys. The stored names are short, since each
// call carries them; the words cost nothing, since they are replaced at load.
var keyWords = map[string]string{
	"record": "m", "plain": "p", "plain*": "p*", "token": "t", "quiet": "tq",
	"bodies*": "b*", "heads": "h", "ready*": "r*", "normal": "r2", "void_turns": "v",
	"scheduled": "z", "retry": "y", "leases": "a", "held": "o", "cancels": "c",
	"dead": "d", "suppressed": "ds", "completed": "f", "cancelled": "g",
	"unique": "u", "remembered": "ids", "by_key": "i", "lapses": "l",
	"line": "kl", "spans": "ks", "rings*": "k*", "blocked": "kb", "thawing": "kd", "active_keys": "ka", "ended_keys": "ke",
	"key_policies": "kp", "key_rates": "kr", "key_heads": "kh",
	"workers": "s", "worker_infos": "wi", "lease_ends": "w", "lease_counts": "k", "ended_workers": "x", "unreclaimed": "n",
	"marks": "h", "fences": "n", // of a group of marks, which has lapses too
}

// queue is what this process knows of a queue: its keys, which depend on the
// number of body buckets. It does not change, but for a hint; a queue that turns out
// to be laid out differently gets another one.
type queue struct {
	name    string
	buckets int
	keys    [][]any      // by place in keyNames, as arguments of a command
	channel string       // for events
	used    atomic.Int64 // the uptime when it was last needed
	listed  atomic.Bool  // this process saw to its place in the list of queues
	seen    atomic.Bool  // it was there
	limited atomic.Int64 // the uptime when enqueue_plain.lua was last not for it; 0 for never
	ahead   atomic.Int64 // the store's clock less uptime, µs; 0 when not known
	heard   atomic.Int64 // the uptime when it was told
}

// newQueue names the keys that begin with base.
func newQueue(base, name string, buckets int) *queue {
	q := &queue{name: name, buckets: buckets, keys: make([][]any, len(keyNames)), channel: base + "e"}
	for i, key := range keyNames {
		switch key {
		case "r*", "k*":
			for p := 1; p <= priorities; p++ {
				q.keys[i] = append(q.keys[i], base+key[:1]+strconv.Itoa(p))
			}
		case "b*":
			for n := range buckets {
				q.keys[i] = append(q.keys[i], base+"b"+strconv.Itoa(n))
			}
		case "p*": // newCall writes them out
		case "p":
			q.keys[i] = []any{base + plainKey(buckets)}
		default:
			q.keys[i] = []any{base + key}
		}
	}
	return q
}

// plainKey names the key p after the number of buckets: who finds it knows that
// they are as many as he thought.
func plainKey(buckets int) string {
	if buckets == 1 {
		return "p"
	}
	return "p" + strconv.Itoa(buckets)
}

// limitedFor is for how long a queue that was not plain is taken to be so.
const limitedFor = 10 * time.Second

// see notes that the queue is there.
func (q *queue) see() {
	if !q.seen.Load() {
		q.seen.Store(true)
	}
}

// absent notes that it is not: what was told of it is over.
func (q *queue) absent() {
	q.seen.Store(false)
	q.limited.Store(0)
}

// limit notes that a call was told that enqueue_plain.lua is not for the queue, which
// was there, as this process knew: it has a limit, or is paused. Otherwise it may not
// have been made yet; the script does not tell these apart.
func (q *queue) limit(seen bool) {
	if seen {
		q.limited.Store(uptime())
	}
}

func (q *queue) isLimited() bool {
	at := q.limited.Load()
	return at != 0 && uptime()-at < limitedFor.Microseconds()
}

// started is what uptime counts from; only its monotonic reading is used.
var started = time.Now()

func uptime() int64 { return time.Since(started).Microseconds() }

// told notes that the store's clock has just been at this time.
func (q *queue) told(at int64) {
	up := uptime()
	q.ahead.Store(at - up)
	q.heard.Store(up)
}

// clockTrust is for how long a time that the store told is counted on from without
// asking again: its clock may be set meanwhile. Bodies that come with their time of
// creation need not be made anew in the script: batches of 100 then enqueue 2.7 times
// as many jobs per second as asynq's, and 2.2 times without.
const clockTrust = time.Second

// time is what the store's clock says, as far as this process knows: a little
// less, by the way of an answer. It is 0 as long as no answer has come. Whether
// that is so by a recent answer is the second result.
func (q *queue) time() (at int64, recent bool) {
	ahead, up := q.ahead.Load(), uptime()
	if ahead == 0 {
		return 0, false
	}
	return ahead + up, up-q.heard.Load() < clockTrust.Microseconds()
}

// baseOf begins the keys of a queue. What is in braces makes its group alone decide which
// node of a Cluster they are on.
func baseOf(prefix, queue string) string {
	return prefix + ":{" + tagsOf(prefix)[groupOf(queue)] + "}:" + queue + ":"
}

// key is the one key of this name.
func (q *queue) key(name string) string { return q.arg(name).(string) }

// arg is key as an argument of a command.
func (q *queue) arg(name string) any { return q.keys[slices.Index(keyNames, name)][0] }

// bucket is the key of the bucket for a slot.
func (q *queue) bucket(slot int) any {
	buckets := q.keys[len(keyNames)-1]
	return buckets[slot%len(buckets)]
}

// ulidSize is the length of an ID that nobody chose.
const ulidSize = 26

// slotOf is the number from which, modulo that of buckets, follows in which of
// them a job's body is, as lib/bodies.lua computes it: claims learn IDs only
// inside the script.
func slotOf(id string) int {
	if len(id) != ulidSize {
		return 0
	}
	return int(id[7])*11 + int(id[8])/4
}

// stretch is of jobs in a row that have the same slot.
type stretch struct{ slot, jobs int }

// cancels, behind the name of a queue's channel for events, is that of the one
// for cancellations, which every worker listens to.
const cancels = "c"

// queueOfChannel is the queue whose events a channel carries, and whether they
// are cancellations.
func queueOfChannel(prefix, channel string) (queue string, cancel bool) {
	channel, cancel = strings.CutSuffix(channel, cancels)
	return queueOfKey(prefix, channel), cancel
}

// queueOfKey is the queue whose key that is; empty for other keys.
func queueOfKey(prefix, key string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "}:")
	end := strings.LastIndexByte(rest, ':')
	if end < 0 || !strings.HasPrefix(key, baseOf(prefix, rest[:end])) {
		return ""
	}
	return rest[:end]
}
