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

// examination is what is remembered of a queue between the steps of Examine.
//
// A ready list cannot be searched for an entry without reading all of it. So the jobs that must
// have a ready entry are remembered first. Then all lists are paged through, from the end at which
// entries arrive, so that an entry that stays is seen. Then jobs whose entry was not seen are read
// again. A job that is still in the same state, at the same epoch, had no entry.
type examination struct {
	awaited map[string]int8 // how often the ready entry of a job was seen, by creation time, priority and entry
	line    int             // ready entries seen
	missing []any           // those that the running part still has to look for
	found   int             // findings about entries so far
	surplus int64           // number of jobs less that of entries
}

// maxExaminations is how many are remembered; one that was dropped starts its queue again.
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
	for i, other := range x.order {
		if other == id {
			x.order = append(x.order[:i:i], x.order[i+1:]...)
			return
		}
	}
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

// batch returns how many entries one step may look for in a list, which takes time in proportion
// to the list's length.
func (e *examiner) batch() int { return max(1, min(e.req.Limit, 100_000/(e.line+1))) }

// lost reads again the jobs whose entry was not seen.
func (e *examiner) lost(ctx context.Context) (pos string, over bool, err error) {
	if e.at.Pos == "" {
		// They begin with the time at which they were stored, and become ready again in that order.
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
		e.note("count-differs", "places", strconv.FormatInt(e.surplus, 10)+" more jobs are stored than there are places of jobs",
			"nothing says which of them is wrong")
	}
}
