package redisbroker

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// examination is what a process remembers about a queue between the steps of Examine.
//
// To search a ready list for an entry, Redis must read the whole list. So Examine first remembers the
// jobs that must have a ready entry. Then it pages through all lists, from the end at which entries
// are added, so that it sees each entry that stays. Finally it reads the jobs again whose entries it
// did not see. A job that is still in the same state and epoch had no entry.
type examination struct {
	awaited map[string]int8 // how often the ready entry of a job was seen, by creation time, priority and entry
	line    int             // the number of ready entries seen
	missing []any           // the entries for which the current part must still look
	found   int             // the number of findings about entries so far
	surplus int64           // the number of jobs minus the number of entries
}

// maxExaminations is how many examinations are remembered. If one was dropped, it begins again with its queue.
const maxExaminations = 8

type examinations struct {
	mu    sync.Mutex
	byID  map[string]*examination
	order []string
}

func (x *examinations) begin() (id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byID == nil {
		x.byID = make(map[string]*examination)
	}
	if len(x.order) == maxExaminations {
		delete(x.byID, x.order[0])
		x.order = x.order[1:]
	}
	id = rand.Text()
	x.byID[id] = &examination{awaited: make(map[string]int8)}
	x.order = append(x.order, id)
	return id
}

func (x *examinations) get(id string) *examination {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}

func (x *examinations) end(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byID, id)
	x.order = slices.DeleteFunc(x.order, func(other string) bool { return other == id })
}

// await remembers jobs that must have a ready entry.
func (x *examination) await(told []any) {
	for _, v := range told {
		x.awaited[text(v)] = 0
	}
}

// see counts ready entries that were seen.
func (x *examination) see(told []any) {
	x.line += len(told)
	for _, v := range told {
		if n, ok := x.awaited[text(v)]; ok && n < 2 {
			x.awaited[text(v)] = n + 1
		}
	}
}

// batch returns for how many entries one step may look in a list. The longer the list, the fewer, since
// each search reads the whole list.
func (e *examiner) batch() int { return max(1, min(e.req.Limit, 100_000/(e.line+1))) }

// lost reads the jobs again whose entries were not seen.
func (e *examiner) lost(ctx context.Context) (pos string, over bool, err error) {
	if e.at.Pos == "" {
		// The texts begin with the creation time of the job, so the jobs become ready again in that order.
		e.missing = nil
		for _, turn := range slices.Sorted(maps.Keys(e.awaited)) {
			if e.awaited[turn] == 0 {
				e.missing = append(e.missing, turn)
			}
		}
	}
	tail := appendTail(nil, &broker.Head{Reason: broker.ReasonUndecodable, Errors: broker.ErrorLog{Entries: []broker.Failure{{
		At: time.Now(), Code: "time_lost", Class: "permanent",
		Message: "the time at which it was due was lost from the store, and an examination found it"}}}})
	return e.inBatches(ctx, "lost", e.req.Limit, string(tail))
}

// twins looks for entries that are in a ready list more than once, if there are more entries than
// jobs and no finding explains it.
func (e *examiner) twins(ctx context.Context) (pos string, over bool, err error) {
	if e.at.Pos == "" {
		if e.surplus >= 0 || e.found > 0 {
			return "", false, nil
		}
		e.missing = nil
		for turn, n := range e.awaited {
			if n > 1 {
				e.missing = append(e.missing, turn[createdSize:])
			}
		}
	}
	return e.inBatches(ctx, "twins", e.batch())
}

// inBatches calls the script for the next size missing entries.
func (e *examiner) inBatches(ctx context.Context, part string, size int, args ...any) (pos string, over bool, err error) {
	from, _ := strconv.Atoi(e.at.Pos)
	if from < 0 || from >= len(e.missing) {
		return "", false, nil
	}
	to := min(from+size, len(e.missing))
	_, _, over, err = e.call(ctx, examineEntriesScript, part, append(args, e.missing[from:to]...)...)
	if to < len(e.missing) {
		pos = strconv.Itoa(to)
	}
	return pos, over, err
}

// total reports a difference between jobs and entries that no other finding explains.
func (e *examiner) total() {
	if e.surplus != 0 && e.found == 0 {
		e.note("count-differs", "places", strconv.FormatInt(e.surplus, 10)+" more jobs are stored than there are entries of jobs",
			"nothing says which of them is wrong")
	}
}
