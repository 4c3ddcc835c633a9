package middleware

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// maxPromises bounds the start times that one limit reserves, which then take about 10 MB.
const maxPromises = 100_000

// minLate is the least time for which a start time stays reserved for a late job: a
// claim's round trip, and a garbage collection or two.
const minLate = time.Second

// pace is the limit of one key: start times an interval apart. Each is taken by a run,
// or promised to a job that was snoozed.
type pace struct {
	key      string
	interval time.Duration
	unused   time.Duration // how far back start times that no run took can be used: the burst
	ahead    time.Duration // how far ahead start times are promised
	late     time.Duration // how long after its start time a promise holds

	mu       sync.Mutex
	next     time.Time // the first start time that is neither taken nor promised
	promised map[jobName]time.Time
	promises []promise // by time; some of them were already kept
}

type promise struct {
	job jobName
	at  time.Time
}

// jobName is a hash of queue and ID. Keeping the strings would keep the memory of whole
// claims alive.
type jobName uint64

var nameSeed = maphash.MakeSeed()

func nameOf(job *jobs.Job) jobName {
	return jobName(maphash.Comparable(nameSeed, [2]string{job.Queue(), job.ID()}))
}

func newPaces(cfg *RateLimitConfig, interval time.Duration) *table[pace] {
	burst := interval * min(time.Duration(cfg.Burst), max(1, broker.MaxDelay/interval))
	ahead := cfg.MaxDelay
	if ahead/interval > maxPromises {
		ahead = maxPromises * interval
	}
	late := max(burst, minLate)
	// After ahead, late and burst have passed, a limit is like a new one.
	idle := 3 * min(max(ahead, late), broker.MaxDelay/3)
	return newTable(idle, func(key string) *pace {
		return &pace{key: key, interval: interval, unused: burst - interval, ahead: ahead, late: late, promised: map[jobName]time.Time{}}
	})
}

// take returns zero if the run may start, or the delay until it may.
func (l *pace) take(job jobName, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	if at, ok := l.promised[job]; ok {
		if now.Before(at) { // it was not snoozed, or was rescheduled
			return at.Sub(now)
		}
		delete(l.promised, job)
		return 0
	}
	if len(l.promises) > 0 && now.Sub(l.promises[0].at) >= l.late/2 { // its job will probably not come
		delete(l.promised, l.promises[0].job)
		return 0
	}
	if earliest := now.Add(-l.unused); l.next.Before(earliest) {
		l.next = earliest
	}
	if !l.next.After(now) {
		l.next = l.next.Add(l.interval)
		return 0
	}
	if l.next.Sub(now) > l.ahead {
		return l.ahead/2 + rand.N(l.ahead/2+1)
	}
	at := l.next
	l.next = at.Add(l.interval)
	l.promised[job] = at
	l.promises = append(l.promises, promise{job, at})
	return at.Sub(now)
}

// forget drops the first promises that were kept or are too old.
func (l *pace) forget(now time.Time) {
	n := 0
	for n < len(l.promises) {
		first := l.promises[n]
		holds := l.promised[first.job].Equal(first.at)
		if holds && now.Sub(first.at) <= l.late {
			break
		}
		if holds {
			delete(l.promised, first.job)
		}
		n++
	}
	if l.promises = l.promises[n:]; len(l.promises) == 0 {
		l.promises = nil
	}
}
