package engine

import "time"

// steps lets a busy server of many queues claim in steps, since a store may look at each queue that
// a claim names. While answers are full, claims name only queues that may have jobs, and now and
// then all. Guarded by Server.mu.
type steps struct {
	mix  *mix
	full bool          // the last claim gave all that it asked for
	at   time.Time     // of the last claim that named all queues
	took time.Duration // how long it took
}

const (
	// manyQueues is for how many queues steps are worth it. A store looks at fewer in about a
	// millisecond.
	manyQueues = 64

	// stepJobs is how many jobs quick handlers get from a queue at a time. The store's work for the
	// queue is then small beside that for its jobs.
	stepJobs = 8

	// stepsApart is how many times its own duration passes between claims that name all queues. So
	// these take about a tenth of the time.
	stepsApart = 10
)

// busy reports whether the next claim is one of many in a row. With strict priorities each claim
// names all queues.
func (p *steps) busy() bool { return p.full && len(p.mix.names) > manyQueues && !p.mix.strict }

// narrow takes the room of queues that seem empty, if the next claim need not name them. It reports
// whether it did.
func (p *steps) narrow(room []int, now time.Time) bool {
	if !p.busy() || now.Sub(p.at) >= stepsApart*p.took {
		return false
	}
	others := false
	for i, n := range room {
		others = others || n > 0 && !p.mix.empty[i]
	}
	for i := range room {
		if others && p.mix.empty[i] {
			room[i] = 0
		}
	}
	return others
}

// jobs returns how many jobs to take from a queue before the next queue has its turn.
func (p *steps) jobs(quick bool) int {
	if p.busy() && quick {
		return stepJobs
	}
	return 1
}

// answered notes an answer. A claim that waited says nothing about how long it takes to name all.
func (p *steps) answered(call *claimCall, sent time.Time, took time.Duration, full bool) {
	p.full = full
	if !call.narrow && call.req.Wait == 0 {
		p.at, p.took = sent, took
	}
}
