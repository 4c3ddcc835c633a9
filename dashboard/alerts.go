package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// alert is a problem on the overview. Grave ones stop jobs from running.
type alert struct {
	Grave bool
	Text  string
	To    string // URL of the page about it
	Label string
}

// trouble is one kind of problem, in some queues. For the words in braces see fill.
type trouble struct {
	grave bool
	one   string // about one queue
	many  string // about several, before their names
	dead  bool   // the page of dead jobs shows more
	in    []troubled
}

// troubled is a queue that has a trouble, with the number of affected jobs.
type troubled struct {
	*inspect.QueueInfo
	jobs int64
}

// alertQueues is how many queues with the same trouble get a line each. If more queues have it, one line
// names alertQueues of them.
const alertQueues = 3

// alerts returns the problems that keep jobs from running or need a decision, the grave
// ones first.
func alerts(s *snapshot) (all []alert) {
	paused := trouble{grave: true, one: "The queue {queue} is paused, and {waiting}.", many: "{queues} queues are paused, and {waiting}"}
	unserved := trouble{grave: true, one: "No live worker serves the queue {queue}, and {waiting}.",
		many: "No live worker serves {queues} queues, and {waiting}"}
	full := trouble{grave: true, one: "The queue {queue} has {jobs} jobs, and its limit is {limit}: at the limit, enqueues are refused.",
		many: "{queues} queues have nine tenths of the jobs that their limits allow; at the limit, enqueues are refused"}
	resting := trouble{one: "The queue {queue} is paused.", many: "{queues} queues are paused and have nothing to run"}
	slow := trouble{one: "The next job of the queue {queue} has waited {waited}: {why}.",
		many: "In {queues} queues the next job has waited longer than " + span(longWait)}
	dead := trouble{dead: true, one: "{dead} in the queue {queue} {wait} for a decision.",
		many: "{dead} in {queues} queues {wait} for a decision"}
	for n := range s.survey.Queues {
		q := &s.survey.Queues[n]
		pending := q.Counts[broker.StatePending]
		due := pending > 0 || q.Age(broker.StateScheduled) > 0 || q.Age(broker.StateRetry) > 0
		if workers, _, _ := alive(q.Workers, q.Now); due && workers == 0 {
			unserved.add(q, pending)
		} else if q.Age(broker.StatePending) > longWait && !q.Policy.Paused {
			slow.add(q, pending)
		}
		switch {
		case q.Policy.Paused && due:
			paused.add(q, pending)
		case q.Policy.Paused:
			resting.add(q, 0)
		}
		if depth, most := pending+q.Counts[broker.StateScheduled], q.Policy.MaxDepth; most > 0 && depth*10 >= most*9 {
			full.add(q, depth)
		}
		if n := q.Listed(broker.StateDead); n > 0 {
			dead.add(q, n)
		}
	}
	for _, t := range []trouble{paused, unserved, full, resting, slow, dead} {
		all = append(all, t.alerts()...)
	}
	return all
}

func (t *trouble) add(q *inspect.QueueInfo, jobs int64) { t.in = append(t.in, troubled{q, jobs}) }

// alerts returns an alert for each queue, or one for many, which names the queues with the most affected
// jobs.
func (t *trouble) alerts() (all []alert) {
	if len(t.in) <= alertQueues {
		for _, q := range t.in {
			to, label := link("queue", "name", q.Name), "Look at the queue"
			if t.dead {
				to, label = link("dead", "queue", q.Name), "Sort them out"
			}
			all = append(all, alert{t.grave, fill(t.one, q, 1), to, label})
		}
		return all
	}
	var jobs int64
	for _, q := range t.in {
		jobs += q.jobs
	}
	slices.SortStableFunc(t.in, func(a, b troubled) int { return cmp.Compare(b.jobs, a.jobs) })
	var names []string
	for _, q := range t.in[:alertQueues] {
		names = append(names, readable.Cut(text(q.Name), 60))
	}
	said := fill(t.many, troubled{t.in[0].QueueInfo, jobs}, len(t.in))
	to, label := "queues", "Look at all queues"
	if t.dead {
		to, label = "dead", "Sort them out"
	}
	return []alert{{t.grave, fmt.Sprintf("%s: %s and %d more.", said, strings.Join(names, ", "), len(t.in)-alertQueues), to, label}}
}

// fill replaces the words in braces of a text about queues, the first of which is q.
func fill(said string, q troubled, queues int) string {
	waiting, wait := num(q.jobs)+" jobs are waiting", "wait"
	switch q.jobs {
	case 0:
		waiting = "jobs are due"
	case 1:
		waiting, wait = "1 job is waiting", "waits"
	}
	why := "its workers do not keep up"
	if _, slots, taken := alive(q.Workers, q.Now); slots > 0 && taken >= slots {
		why = fmt.Sprintf("all %d slots of its workers are taken", slots)
	}
	return strings.NewReplacer("{queue}", text(q.Name), "{queues}", strconv.Itoa(queues), "{jobs}", num(q.jobs), "{waiting}", waiting,
		"{dead}", readable.Count(q.jobs, "dead job"), "{wait}", wait, "{limit}", num(q.Policy.MaxDepth),
		"{waited}", span(q.Age(broker.StatePending)), "{why}", why).Replace(said)
}
