package pgbroker

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// entry is a new job of a request, with its receipt.
type entry struct {
	*broker.NewJob
	receipt *broker.Receipt
}

func (e entry) fail(err error) { e.receipt.Err = broker.About(err, "enqueue", e.Queue, e.ID) }

// refuse refuses the job as a duplicate: another job has its ID or unique key.
func (e entry) refuse(holder string) {
	e.receipt.Holder = holder
	e.fail(broker.Duplicate(e.ID, holder))
}

func fail(jobs []entry, err error) {
	for _, j := range jobs {
		j.fail(err)
	}
}

// flush is a run of new jobs of one queue that are stored together. No two of them have the
// same ID or unique key.
type flush struct {
	b         *Broker
	now       clock
	queue     string
	pastLimit bool // the depth limit was already checked
	impatient bool
	keyless   bool   // another job holds the unique key, so do not take it (meeting.park)
	token     *int64 // marks the unique keys that this flush takes, if there are any
	jobs      []entry

	// The answer.
	at      int64 // the store's time, or the request's
	served  bool
	keeps   bool              // the queue keeps records of completed jobs, as store saw it
	stored  []string          // the IDs of stored jobs; nil means all
	heldOut []string          // the IDs of jobs whose unique keys others hold
	known   map[string]bool   // IDs that have a record in other tables
	held    map[string]string // for restored jobs: the holders of those that are held
	holders map[string]string // by ID in heldOut: the holder of the unique key
}

// part returns a flush of some of f's jobs.
func (f *flush) part(jobs []entry) *flush {
	p := &flush{b: f.b, now: f.now, queue: f.queue, pastLimit: f.pastLimit, jobs: slices.Clip(jobs)}
	if p.any((*broker.NewJob).TakesKey) {
		p.token = new(rand.Int64())
	}
	return p
}

// again puts jobs back to the front.
func (f *flush) again(some []entry) {
	if len(some) > 0 {
		f.jobs = slices.Concat(some, f.jobs)
	}
}

// any reports whether one of the jobs is such a job.
func (f *flush) any(such func(*broker.NewJob) bool) bool {
	return slices.ContainsFunc(f.jobs, func(j entry) bool { return such(j.NewJob) })
}

// lockTimeout returns how long to wait for IDs and keys that others have locked; nil means as long
// as the call may take.
func (f *flush) lockTimeout() *string {
	if f.any(careful) {
		return keyWait(f.impatient)
	}
	return nil
}

// takeKeys returns the statement that takes the flush's unique keys.
func (f *flush) takeKeys() step {
	var wanted wantedKeys
	for _, j := range f.jobs {
		if j.TakesKey() {
			wanted.add(j.Body.Unique, j.ID, f.now)
		}
	}
	return wanted.take(f.b, f.now, f.queue, f.pastLimit, f.token)
}

// bodies returns the stored form of each job.
func (f *flush) bodies() [][]byte {
	bodies := make([][]byte, len(f.jobs))
	size := 0
	for _, j := range f.jobs {
		size += len(j.Body.Payload) + 64
	}
	buf := make([]byte, 0, size)
	for i, j := range f.jobs {
		from := len(buf)
		buf = broker.AppendBody(buf, &j.Body)
		bodies[i] = buf[from:len(buf):len(buf)]
	}
	return bodies
}

func (f *flush) lanes() []int16 {
	return values(f, func(j *broker.NewJob) int16 { return backLane(j.Body.Priority) })
}

// plain reports whether all jobs are due at once and leave no record, and whether none can
// collide with other jobs or have been stored before.
func (f *flush) plain() bool {
	_, keeps := f.b.keeping.Load(f.queue)
	return !keeps && !f.any(func(j *broker.NewJob) bool {
		return careful(j) || !j.FirstSend || later(j) || j.Body.Retention != 0
	})
}

// storePlain returns the fast statement, which stores plain jobs: all of them or none.
func (f *flush) storePlain(wake *wakeUp) step {
	self, payload := wake.args(f.queue)
	read := func(r rows) error {
		f.served = r.Next()
		return nil
	}
	if keys := column(f, key); keys != nil {
		return f.b.step("enqueue_plain_keyed", read, f.now.micros, f.queue, f.pastLimit, column(f, jobID), f.lanes(), f.bodies(), keys,
			self, payload)
	}
	return f.b.step("enqueue_plain", read, f.now.micros, f.queue, f.pastLimit, column(f, jobID), f.lanes(), f.bodies(), self, payload)
}

// store returns the statement that stores jobs of any kind.
func (f *flush) store() step {
	keys := column(f, uniqueKey)
	if f.keyless {
		keys = nil
	}
	return f.b.step("enqueue", func(r rows) error {
		var keeps *bool
		err := one(&f.at, &keeps, &f.stored, &f.heldOut)(r)
		f.served, f.keeps = keeps != nil, keeps != nil && *keeps
		return err
	}, f.now.micros, f.queue, f.pastLimit, column(f, jobID), f.lanes(), f.bodies(),
		column(f, runAt), column(f, f.delay), column(f, retain), column(f, given), column(f, key), keys, f.token)
}

// delay returns a job's delay in µs, to be added to the clock.
func (f *flush) delay(j *broker.NewJob) int64 { return f.now.after(j.Delay) }

// seal returns the statement that removes the new jobs whose IDs exist in other tables, and
// reports which jobs hold unique keys. If stored is nil, the rows that the transaction wrote count
// as stored.
func (f *flush) seal(stored []string, wake *wakeUp) step {
	var id, holder *string
	var known *bool
	var keys []string
	if f.token != nil {
		keys = column(f, uniqueKey)
	}
	self, payload := wake.args(f.queue)
	return f.b.step("enqueue_seal", each(func(r rows) error {
		if err := r.Scan(&id, &known, &holder); err != nil || id == nil {
			return err
		}
		if *known {
			f.know(*id)
		} else if holder != nil {
			if f.holders == nil {
				f.holders = make(map[string]string)
			}
			f.holders[*id] = *holder
		}
		return nil
	}), f.now.micros, f.queue, column(f, jobID), stored, keys, f.token, self, payload)
}

func (f *flush) know(id string) {
	if f.known == nil {
		f.known = make(map[string]bool)
	}
	f.known[id] = true
}

// answer fills in the receipts. It returns the jobs whose unique key was freed while they were
// being refused because of it: they can be tried again.
func (f *flush) answer() (undecided []entry) {
	stored, heldOut := set(f.stored), set(f.heldOut)
	for _, j := range f.jobs {
		holder, held := f.holders[j.ID]
		switch {
		case f.known[j.ID]:
			f.refuseKnown(j)
		case f.stored == nil || stored[j.ID]:
			f.accept(j)
		case heldOut[j.ID] && (!held || j.Meets()):
			undecided = append(undecided, j)
		case held:
			j.refuse(holder)
		default:
			f.refuseKnown(j)
		}
	}
	return undecided
}

// refuseKnown refuses a job whose ID exists. If a restored job has the ID of a held job, both may be
// the same job, so it gets another error (§29).
func (f *flush) refuseKnown(j entry) {
	if by, held := f.held[j.ID]; held {
		j.receipt.Holder = by
		j.fail(broker.Held(by))
		return
	}
	j.refuse(j.ID)
}

// accept fills in the receipt of a job that was stored.
func (f *flush) accept(j entry) {
	due, state := f.due(j.NewJob), broker.StatePending
	if due > f.at {
		state = broker.StateScheduled
	}
	if j.Restore != nil && (j.Restore.State == broker.StateRetry || j.Restore.State.Final()) {
		state = j.Restore.State
	}
	j.receipt.State, j.receipt.RunAt = state, time.Time{}
	if waits(state) {
		j.receipt.RunAt = broker.FromMicros(due)
	}
}

// due returns when a job is due, by its delay or its run time; otherwise now.
func (f *flush) due(j *broker.NewJob) int64 {
	switch {
	case j.Delay > 0:
		return f.at + f.delay(j)
	case !j.RunAt.IsZero():
		return broker.Micros(j.RunAt)
	}
	return f.at
}

// values returns one field of each job.
func values[T any](f *flush, field func(*broker.NewJob) T) []T {
	all := make([]T, len(f.jobs))
	for i, j := range f.jobs {
		all[i] = field(j.NewJob)
	}
	return all
}

// column is values, or nil if the field is empty in all jobs.
func column[T comparable](f *flush, field func(*broker.NewJob) T) []T {
	var empty T
	if !f.any(func(j *broker.NewJob) bool { return field(j) != empty }) {
		return nil
	}
	return values(f, field)
}

func given(j *broker.NewJob) bool       { return j.Body.GivenID }
func jobID(j *broker.NewJob) string     { return j.ID }
func uniqueKey(j *broker.NewJob) string { return j.Body.Unique.Key }
func key(j *broker.NewJob) string       { return j.Body.Key }
func runAt(j *broker.NewJob) int64      { return broker.Micros(j.RunAt) }
func retain(j *broker.NewJob) int64     { return broker.DurationMicros(j.Body.Retention) }

func set(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// backLane returns the second lane of a priority. Lanes divide the pending jobs of a queue: each
// priority has a front lane, for jobs that were put to the front, and after it a back lane, for
// the others.
func backLane(p broker.Priority) int16 { return int16(p)*2 + 1 }

// lanes is the number of lanes; statements number them 2 to 9.
const lanes = 2 * broker.Priorities
