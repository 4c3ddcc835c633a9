package membroker

import (
	"bytes"
	"maps"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// job is a stored job. The embedded Job is kept as it is handed out, but for
// copies of what callers could write to; its bytes are never written to, only
// replaced.
type job struct {
	broker.Job

	// Where it is; see queue.enter.
	at         int64 // in microseconds: when it is due, or when it ended
	seq        int64 // rises with each place it gets
	lapse      int64 // completed and cancelled: when retention ends
	holder     *worker
	prev, next *job
	slots      [bagKinds]int32
}

// newJob copies what the caller keeps and rounds times as the store does (§2).
func newJob(n *broker.NewJob, bytes *arena) *job {
	j := &job{Job: broker.Job{Queue: n.Queue, ID: n.ID, Body: n.Body}}
	b := &j.Body
	b.Payload = bytes.copy(b.Payload)
	b.Headers = maps.Clone(b.Headers)
	b.Timeout, b.Retention = upTo(b.Timeout), upTo(b.Retention)
	b.Backoff.Base, b.Backoff.Max = upTo(b.Backoff.Base), upTo(b.Backoff.Max)
	b.Unique.TTL = upTo(b.Unique.TTL)
	b.Deadline = broker.FromMicros(broker.Micros(b.Deadline))
	return j
}

// ownHead makes a head of what an outcome left of a caller's.
func ownHead(h broker.Head) broker.Head {
	h.Result = bytes.Clone(h.Result)
	h.Errors.Entries = slices.Clone(h.Errors.Entries)
	for i := range h.Errors.Entries {
		f := &h.Errors.Entries[i]
		f.At = broker.FromMicros(broker.Micros(f.At))
	}
	return h
}

// detach makes jobs that were copied from the store the caller's own. It needs
// no lock, because the store never writes to what they share with it.
func detach(jobs []broker.Job) {
	size := 0
	for i := range jobs {
		size += len(jobs[i].Payload) + len(jobs[i].Result)
	}
	bytes := arena{left: size, chunk: size}
	for i := range jobs {
		j := &jobs[i]
		j.Payload, j.Result = bytes.copy(j.Payload), bytes.copy(j.Result)
		j.Headers = maps.Clone(j.Headers)
		j.Errors.Entries = slices.Clone(j.Errors.Entries)
	}
}

// arena copies byte strings into chunks that they share, since a batch of small
// allocations costs more than all the rest of a call. A chunk lives as long as
// one copy in it does, so those that stay in the store are small.
type arena struct {
	free  []byte
	left  int // bytes that are still to be copied
	chunk int // size of a chunk
}

const storeChunk = 4 << 10

func (a *arena) copy(p []byte) []byte {
	if len(p) == 0 {
		return nil
	}
	if len(p) > len(a.free) {
		a.free = make([]byte, max(len(p), min(a.left, a.chunk)))
	}
	n := copy(a.free, p)
	c := a.free[:n:n]
	a.free, a.left = a.free[n:], a.left-n
	return c
}
