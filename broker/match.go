package broker

import (
	"strings"
	"time"
)

// Matches reports whether the query selects a job of its queue. Backends look jobs up
// by one index and filter them with this. A query by IDs selects all that it names.
func (q *Query) Matches(j *Job) bool {
	if len(q.IDs) > 0 {
		return true
	}
	at := j.listedAt()
	return (q.State == StateNone || j.State == q.State) &&
		(q.Worker == "" || j.Worker == q.Worker) &&
		(q.Key == "" || j.Key == q.Key) &&
		(q.Type == "" || j.Type == q.Type) &&
		(q.Reason == ReasonNone || j.Reason == q.Reason) &&
		(q.ErrorText == "" || strings.Contains(j.Errors.Last().Message, q.ErrorText)) &&
		(q.After.IsZero() || Micros(at) >= Micros(q.After)) &&
		(q.Before.IsZero() || Micros(at) < Micros(q.Before)) &&
		(q.Suppressed || !j.Suppressed)
}

// Needles are bytes that occur in the stored form of every job that [Query.Matches]
// accepts; nil means no condition. A store can search for them, and need not send records
// that lack them. Other records may contain them too, so Matches still decides.
type Needles struct {
	TailBegins []byte // the tail of the head begins with this
	Tail       []byte // the tail of the head contains this
	Body       []byte // the body contains this
}

// Needles returns the needles of q. A query by IDs has none.
func (q *Query) Needles() (n Needles) {
	if len(q.IDs) > 0 {
		return n
	}
	w := writer{}
	w.int(tailReason, int64(q.Reason))
	n.TailBegins = w.b
	if q.ErrorText != "" {
		n.Tail = []byte(q.ErrorText)
	}
	if q.Type != "" {
		n.Body = []byte(q.Type)
	}
	return n
}

// Some reports whether there is any needle.
func (n *Needles) Some() bool { return n.TailBegins != nil || n.Tail != nil || n.Body != nil }

// listedAt returns the time that After and Before of a Query bound.
func (j *Job) listedAt() time.Time {
	switch {
	case j.State.Final():
		return j.FinishedAt
	case j.State == StateScheduled || j.State == StateRetry:
		return j.RunAt
	}
	return j.CreatedAt
}

// Alive reports whether the worker's leases hold at now. From Until on they have run
// out, and a Reclaim ends the worker (§8, §15).
func (i *WorkerInfo) Alive(now time.Time) bool { return now.Before(i.Until) }
