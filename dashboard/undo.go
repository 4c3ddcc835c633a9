package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// undo holds what is needed to undo a decision about named jobs. A redrive can be
// undone for jobs that no worker has claimed since; suppressing and unsuppressing, for
// all.
type undo struct {
	verb verb
	was  map[string][]former // by queue
}

// former is what an undo needs to know of a job as it was before the decision; only a
// redrive needs more than the ID.
type former struct {
	ID        string
	CreatedAt time.Time
	Head      broker.Head
}

// formerOf copies what it keeps: a short text must not keep the page of records in memory
// of which it is a part. Errors and what the handler kept stay with a redriven job.
func (v *verb) formerOf(j *broker.Job) former {
	f := former{ID: strings.Clone(j.ID)}
	if undoable[v.Name] == "" {
		f.CreatedAt = j.CreatedAt
		f.Head = broker.Head{Epoch: j.Epoch, Failures: j.Failures, Crashes: j.Crashes, Snoozes: j.Snoozes, Reason: j.Reason,
			Suppressed: j.Suppressed, FinishedAt: j.FinishedAt}
	}
	return f
}

func (u *undo) jobs() (n int) {
	for _, was := range u.was {
		n += len(was)
	}
	return n
}

// remembered holds the jobs of a decision as they were before it. It holds nothing if
// there are too many.
type remembered struct {
	undo
	beyond bool
}

func remember(v verb) remembered {
	return remembered{undo: undo{verb: v, was: make(map[string][]former)}}
}

const (
	maxUndo   = 10_000  // jobs that one undo can restore in a few seconds
	keptJobs  = 100_000 // of all kept undos together: some 30 MB
	keptUndos = 20      // the newest notices, which may have an undo
)

// add records a job that is about to be changed. Jobs that stay as they are do not count:
// an undo must not take back what somebody else did earlier.
func (b *remembered) add(j *broker.Job) {
	if _, ok := undoable[b.verb.Name]; !ok || b.beyond || !b.verb.Possible(j.State) ||
		b.verb.Name == "suppress" && j.Suppressed || b.verb.Name == "unsuppress" && !j.Suppressed {
		return
	}
	if b.jobs() >= maxUndo {
		b.was, b.beyond = nil, true
		return
	}
	queue := strings.Clone(j.Queue) // for the reason of formerOf
	b.was[queue] = append(b.was[queue], b.verb.formerOf(j))
}

// drop removes the jobs that the decision refused: if somebody redrives one later, that is no part of it.
// A report names the first refusals only; if there are more, nothing can be undone.
func (b *remembered) drop(r inspect.Report) {
	if r.Refused > len(r.Refusals) {
		b.was, b.beyond = nil, true
	}
	for _, f := range r.Refusals {
		if was := b.was[f.Queue]; len(was) > 0 {
			b.was[f.Queue] = slices.DeleteFunc(was, func(j former) bool { return j.ID == f.ID })
		}
	}
}

// undoable has the verbs that can be undone, each with the verb that undoes it; a redrive is undone
// differently.
var undoable = map[string]string{"redrive": "", "suppress": "unsuppress", "unsuppress": "suppress"}

// undo undoes the decision of a notice. It finishes even if the client is gone.
func (h *Handler) undo(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("of")
	n := h.notices.get(id)
	if n == nil || n.undo == nil {
		return &pageError{http.StatusConflict,
			"This can no longer be undone: it was undone already, or other decisions followed, or another process made it."}
	}
	who, err := h.authorize(r, n.undo.verb.action)
	if err != nil {
		return err
	}
	u := h.notices.take(id)
	if u == nil {
		return &pageError{http.StatusConflict, "This was undone already."}
	}
	var total inspect.Report
	for _, queue := range slices.Sorted(maps.Keys(u.was)) {
		var report inspect.Report
		jobs := len(u.was[queue])
		report, err = h.undoQueue(u, queue)
		total.Add(report)
		h.audit(who, "undo "+u.verb.Name, err, "queue", queue, "jobs", jobs, "done", report.Done, "refused", report.Refused)
		if err != nil {
			break
		}
	}
	h.poller.changed()
	if err != nil {
		h.notices.putBack(id, u)
		return partly(err, "restored", total)
	}
	said := fmt.Sprintf("Undone for %s of %s.", num(int64(total.Done)), readable.Count(total.Done+total.Refused, "job"))
	if total.Refused > 0 {
		said += " The others were claimed or changed meanwhile."
	}
	query := "state=dead&notice=" + h.notices.put(notice{Text: said, Wrong: total.Refused > 0})
	redirect(w, "jobs", query)
	return nil
}

// undoStep is how many jobs are undone at once. After a failure, those of the step are
// tried again.
const undoStep = 100

// undoQueue undoes a decision for the jobs of one queue. It removes from u those that it
// is done with, so that after an error the rest can be undone.
func (h *Handler) undoQueue(u *undo, queue string) (total inspect.Report, err error) {
	back, opposite := verbNamed(undoable[u.verb.Name])
	for len(u.was[queue]) > 0 {
		was := u.was[queue][:min(undoStep, len(u.was[queue]))]
		var report inspect.Report
		if opposite {
			ids := make([]string, 0, len(was))
			for i := range was {
				ids = append(ids, was[i].ID)
			}
			report, err = back.do(h.closing, h.inspector.Select(inspect.Query{Queue: queue, IDs: ids, Suppressed: true}), 0)
			if report.Refused > 0 && !broker.StoreFailed(err) { // the notice says so
				err = nil
			}
		} else {
			jobs := make([]broker.Job, len(was))
			for i, f := range was {
				jobs[i] = broker.Job{Queue: queue, ID: f.ID, CreatedAt: f.CreatedAt, Head: f.Head}
			}
			report, err = h.inspector.UndoRedrive(h.closing, queue, jobs)
		}
		if total.Add(report); err != nil {
			return total, err
		}
		u.was[queue] = u.was[queue][len(was):]
	}
	delete(u.was, queue)
	return total, nil
}
