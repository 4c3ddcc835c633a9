package broker

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of a step of an examination: a step should hold up a store for some milliseconds.
const (
	DefaultExamine = 200  // records examined in a step
	MaxExamine     = 1000 // the most that a request may ask for
)

// ExamineRequest asks for one step of an examination.
type ExamineRequest struct {
	Now    time.Time
	Queue  string // only this queue; empty means the whole store and its settings
	Fix    bool   // repair what can be repaired
	Cursor string // of the step before; empty begins
	Limit  int    // records examined in this step; 0 means DefaultExamine, at most MaxExamine
}

// Check refuses a request outside the limits and sets the default Limit.
func (r *ExamineRequest) Check() error {
	var err error
	if r.Queue != "" {
		err = CheckQueue(r.Queue)
	}
	if r.Limit < 0 || r.Limit > MaxExamine {
		err = cmp.Or(err, Invalid("limit", "is %d; use 1 to %d", r.Limit, MaxExamine))
	}
	if r.Limit == 0 {
		r.Limit = DefaultExamine
	}
	return About(err, "examine", r.Queue, "")
}

// Examined is the result of one step.
type Examined struct {
	Now      time.Time
	Findings []Finding
	Records  int    // examined in this step
	Queue    string // examined in this step; empty for the store as a whole
	Part     string // of the queue or store, to show progress
	Cursor   string // of the next step; empty at the end
}

// Finding is one fault. The backend fills in the kind, so that a program can show
// findings of any backend.
type Finding struct {
	FindingKind
	Queue string // empty for the store as a whole
	ID    string // of the job, or the name of the mark, worker or key
	What  string // what is wrong here, in one sentence
	Fixed bool   // it was repaired
	Left  string // with Fix: why it was not repaired
}

// ExaminePlan is the order in which a backend examines its store: first the parts of the
// store as a whole, then the parts of one queue after the other. An examination of one
// queue has only that queue's parts.
type ExaminePlan struct {
	Store []string
	Queue []string
}

// ExamineCursor is the position of an examination: a part, its queue, and the position
// within the part, which is empty at the beginning.
type ExamineCursor struct{ Part, Queue, Pos string }

func (c ExamineCursor) String() string { return c.Part + "\n" + c.Queue + "\n" + c.Pos }

// Read returns where a step begins. It returns ErrInvalid for a cursor that is not of
// this plan.
func (p ExaminePlan) Read(r *ExamineRequest) (c ExamineCursor, err error) {
	if r.Cursor == "" {
		c.Queue = r.Queue
		if parts := p.of(r); len(parts) > 0 {
			c.Part = parts[0]
		}
		return c, nil
	}
	fields := strings.SplitN(r.Cursor, "\n", 3)
	if len(fields) == 3 {
		c = ExamineCursor{Part: fields[0], Queue: fields[1], Pos: fields[2]}
		known := slices.Contains(p.Queue, c.Part) || r.Queue == "" && c.Queue == "" && slices.Contains(p.Store, c.Part)
		if known && (c.Queue == "" || CheckQueue(c.Queue) == nil) && (r.Queue == "" || r.Queue == c.Queue) {
			return c, nil
		}
	}
	err = Invalid("cursor", "%.64q belongs to no step of this examination; start with an empty one", r.Cursor)
	return c, About(err, "examine", r.Queue, "")
}

// of returns the parts that an examination begins with.
func (p ExaminePlan) of(r *ExamineRequest) []string {
	if r.Queue == "" && len(p.Store) > 0 {
		return p.Store
	}
	return p.Queue
}

// Next returns the cursor of the step after c. Argument pos is the position reached in
// the part; it is empty if the part is done. Function after returns the queue that
// follows a given one, or "" at the end.
func (p ExaminePlan) Next(r *ExamineRequest, c ExamineCursor, pos string, after func(queue string) (string, error)) (string, error) {
	if pos != "" {
		c.Pos = pos
		return c.String(), nil
	}
	c.Pos = ""
	parts := p.Queue
	if c.Queue == "" && slices.Contains(p.Store, c.Part) {
		parts = p.Store
	}
	if i := slices.Index(parts, c.Part) + 1; i < len(parts) {
		c.Part = parts[i]
		return c.String(), nil
	}
	if r.Queue != "" || len(p.Queue) == 0 {
		return "", nil
	}
	next, err := after(c.Queue)
	if err != nil || next == "" {
		return "", err
	}
	return ExamineCursor{Part: p.Queue[0], Queue: next}.String(), nil
}

// FindingKind says what a code means, and what to do about it.
type FindingKind struct {
	Code    string // keeps its meaning in later releases
	Warning bool   // nothing is wrong yet; other findings are errors
	Means   string // what it means for users of the queue
	Repair  string // what a repair does; empty when there is none
	Advice  string // what to do if there is no repair, or it was not made
}

// FindingKinds holds kinds by their code.
type FindingKinds map[string]FindingKind

// KnownFindings returns the kinds that several stores can have, and the backend's own. It
// panics if a code is there twice.
func KnownFindings(own ...[]FindingKind) FindingKinds {
	all := make(FindingKinds)
	for _, list := range append([][]FindingKind{jobFindings, nameFindings, workerFindings, queueFindings, serverFindings}, own...) {
		for _, k := range list {
			if _, twice := all[k.Code]; twice {
				panic("broker: finding " + k.Code + " is described twice") // a mistake in a backend
			}
			all[k.Code] = k
		}
	}
	return all
}

// Of returns the kind with this code, or one that has only the code.
func (k FindingKinds) Of(code string) FindingKind {
	if kind, ok := k[code]; ok {
		return kind
	}
	return FindingKind{Code: code}
}

// List returns the kinds in the order of their codes.
func (k FindingKinds) List() []FindingKind {
	return slices.SortedFunc(maps.Values(k), func(a, b FindingKind) int { return strings.Compare(a.Code, b.Code) })
}

const whenShorter = "examine again when fewer jobs wait"

// What can be wrong with a job and its entries.
var jobFindings = []FindingKind{
	{Code: "job-listed-twice",
		Means:  "the job is in two lists, or twice in one: it may run twice, and counts are too high",
		Repair: "the entry that its head and its lease name stays; the others are removed",
		Advice: whenShorter},
	{Code: "count-differs",
		Means:  "a count is not the number of jobs: depth limits, retention by count, lists and alerts use a wrong number",
		Repair: "the count is set to the number of jobs",
		Advice: "examine again; if this finding comes back without others, please report it as a bug"},
}

// What can be wrong with unique keys, partition keys and remembered IDs.
var nameFindings = []FindingKind{
	{Code: "key-head-wrong",
		Means:  "the jobs of a partition key wait for one that is gone or has ended: none of them runs",
		Repair: "they no longer wait for it"},
	{Code: "key-without-turn",
		Means:  "a partition key that may start a job has no turn, so its jobs do not run; or a key that may start none has a turn",
		Repair: "it gets a turn, or loses it"},
	{Code: "unique-key-of-missing-job",
		Means:  "a job that is gone holds a unique key: new jobs with that key are refused as duplicates",
		Repair: "the key is freed"},
	{Code: "unique-key-of-ended-job",
		Means:  "a job holds a unique key that it should have freed: new jobs with that key are refused as duplicates",
		Repair: "the key is freed"},
	{Code: "unique-key-not-held",
		Means:  "a job does not hold its unique key: a duplicate of it may be accepted, or was",
		Repair: "the job takes the key again, if no other job holds it",
		Advice: "two jobs have the same key; cancel or delete one of them"},
	{Code: "unique-window-never-lapses", Warning: true,
		Means:  "nothing removes the window of a unique key after its end: it only takes space",
		Repair: "its removal is scheduled"},
	{Code: "mark-fence-behind",
		Means:  "the next owner of a mark could get a fence that an earlier one had: late writes would be accepted",
		Repair: "the counter is set above the highest fence in use"},
}

// What can be wrong with leases and workers.
var workerFindings = []FindingKind{
	{Code: "lease-of-unknown-worker",
		Means:  "a job is leased to a worker that the store does not know: no server would reclaim it",
		Repair: "the worker counts as ended, so that a server reclaims the job"},
	{Code: "cancel-without-lease",
		Means:  "a cancellation is requested for a job that is not active, or from a wrong worker: heartbeats may fail",
		Repair: "the request is removed, or moved to the worker that holds the job"},
	{Code: "worker-alive-and-ended",
		Means:  "a worker is alive although its ID has ended: it could still claim",
		Repair: "the worker is ended; its process registers again under another ID"},
	{Code: "worker-not-reclaimed", Warning: true,
		Means:  "a worker's leases ran out and no server has reclaimed its jobs: they wait",
		Advice: "start a server for this queue"},
	{Code: "queue-not-served", Warning: true,
		Means:  "jobs are pending or due, or wait in a queue of the framework (@…), and no live worker serves the queue: none of them runs",
		Advice: "start a server for this queue, for one of the framework with its extension; or pause or remove the queue"},
}

// What can be wrong with queues as a whole, their keys and tables.
var queueFindings = []FindingKind{
	{Code: "queue-record-missing",
		Means:  "jobs are stored for a queue without a record: none is claimed, and most calls for it are refused",
		Repair: "the record is made again with the default policy; a queue without a name gets one that begins with recovered-"},
	{Code: "layout-newer",
		Means:  "a newer release stored this queue: this program must not change it",
		Advice: "use the newer release"},
	{Code: "prune-behind", Warning: true,
		Means:  "something that should have been removed an hour ago is still there: nobody prunes, and the store grows",
		Advice: "start a server for this queue; it prunes"},
}

// What can be wrong with the server that is the store.
var serverFindings = []FindingKind{
	{Code: "server-read-only",
		Means:  "this server is a replica, or only lets clients read: nobody can write to it",
		Advice: "connect to the master, by Sentinel or Cluster; on Postgres, see default_transaction_read_only"},
	{Code: "clocks-differ", Warning: true,
		Means:  "the clocks of the store and of this machine differ: due times follow the store's",
		Advice: "run a time daemon on both"},
}
