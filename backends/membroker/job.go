package membroker

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// job is a stored job. What it points to is never written to, only replaced,
// so that copies of it can be made for callers after the store is unlocked. It
// is kept small: what can be told from elsewhere is not in it.
type job struct {
	id              string
	*broker.Body                 // shared with other jobs, without a payload and headers
	payload         []byte       // with the headers behind it, see pack
	head            *broker.Head // nil for a fresh job
	created         int64        // in microseconds
	hash            uint32       // of the ID
	state           broker.State
	cancelRequested bool

	// Where it is; see queue.move.
	at         int64 // in microseconds: when it is due, or when it ended
	seq        int64 // rises with each place it gets
	lapse      int64 // completed and cancelled: when retention ends
	holder     *worker
	held       *held // waiting
	prev, next *job
	slots      [bagKinds]uint32
	number     uint32 // in the index
}

var fresh broker.Head

// read is the job's head, not to be written to.
func (j *job) read() *broker.Head {
	if j.head == nil {
		return &fresh
	}
	return j.head
}

// suppressed reports whether it is dead and out of default lists.
func (j *job) suppressed() bool { return j.state == broker.StateDead && j.read().Suppressed }

// write replaces the job's head.
func (j *job) write(h broker.Head) { j.head = &h }

func (j *job) ref(queue string) broker.Ref {
	return broker.Ref{Queue: queue, ID: j.id, Epoch: j.read().Epoch}
}

// size is what the job counts for in an answer: its payload and headers (§13).
func (j *job) size() int { return cap(j.payload) }

// show appends a job as it is handed out, still to be detached.
func (q *queue) show(jobs []broker.Job, j *job) []broker.Job {
	jobs = append(jobs, broker.Job{})
	out := &jobs[len(jobs)-1]
	out.Queue, out.ID, out.Body, out.Head = q.name, j.id, *j.Body, *j.read()
	out.Payload = j.payload
	out.State, out.CancelRequested, out.CreatedAt = j.state, j.cancelRequested, broker.FromMicros(j.created)
	switch j.state {
	case broker.StateActive:
		out.Worker = j.holder.id
	case broker.StateScheduled, broker.StateRetry:
		out.RunAt = broker.FromMicros(j.at)
	case broker.StateWaiting:
		out.Holder, out.HeldFrom, out.RunAt = j.held.by, j.held.from, broker.FromMicros(j.held.at)
	}
	return jobs
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

// answerChunk is how many bytes of an answer's payloads and headers lie together:
// who keeps one job of it keeps no more of the others.
const answerChunk = 16 << 10

// detach makes jobs that were copied from the store the caller's own. It needs
// no lock, because the store never writes to what they share with it.
func detach(jobs []broker.Job) {
	size, headers := 0, 0
	for i := range jobs {
		size += len(jobs[i].Payload) + len(jobs[i].Result)
		headers += len(packedHeaders(jobs[i].Payload))
	}
	bytes := arena{left: size, chunk: answerChunk}
	var text strings.Builder
	text.Grow(min(headers, answerChunk))
	for i := range jobs {
		j := &jobs[i]
		if text.Len() >= answerChunk {
			headers -= text.Len()
			text = strings.Builder{}
			text.Grow(min(headers, answerChunk))
		}
		j.Headers = unpack(packedHeaders(j.Payload), &text)
		j.Payload, j.Result = bytes.copy(j.Payload), bytes.copy(j.Result)
		j.Errors.Entries = slices.Clone(j.Errors.Entries)
	}
}
