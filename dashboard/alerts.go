package dashboard

import (
	"cmp"
	"fmt"
	"slices"
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

// trouble is one kind of problem, in some queues.
type trouble struct {
	grave bool
	one   func(q *inspect.QueueInfo, jobs int64) string
	many  func(queues int, jobs int64) string // the text for several queues, before their names
	dead  bool                                // the page of dead jobs shows more

	queues []*inspect.QueueInfo
	jobs   []int64 // affected jobs, by queue
}

// alertQueues is how many queues with the same trouble get a line each. If more queues have it, one line
// names alertQueues of them.
const alertQueues = 3

// alerts returns the problems that keep jobs from running or need a decision, the grave
// ones first.
func alerts(s *snapshot) (all []alert) {
	waiting := func(n int64) string {
		switch n {
		case 0:
			return "jobs are due"
		case 1:
			return "1 job is waiting"
		}
		return num(n) + " jobs are waiting"
	}
	name := func(q *inspect.QueueInfo) string { return text(q.Name) }
	paused := &trouble{grave: true,
		one: func(q *inspect.QueueInfo, n int64) string {
			return fmt.Sprintf("The queue %s is paused, and %s.", name(q), waiting(n))
		},
		many: func(queues int, n int64) string {
			return fmt.Sprintf("%d queues are paused, and %s", queues, waiting(n))
		}}
	unserved := &trouble{grave: true,
		one: func(q *inspect.QueueInfo, n int64) string {
			return fmt.Sprintf("No live worker serves the queue %s, and %s.", name(q), waiting(n))
		},
		many: func(queues int, n int64) string {
			return fmt.Sprintf("No live worker serves %d queues, and %s", queues, waiting(n))
		}}
	full := &trouble{grave: true,
		one: func(q *inspect.QueueInfo, n int64) string {
			return fmt.Sprintf("The queue %s has %s jobs, and its limit is %s: at the limit, enqueues are refused.", name(q), num(n),
				num(q.Policy.MaxDepth))
		},
		many: func(queues int, _ int64) string {
			return fmt.Sprintf("%d queues have nine tenths of the jobs that their limits allow; at the limit, enqueues are refused", queues)
		}}
	resting := &trouble{
		one: func(q *inspect.QueueInfo, _ int64) string { return fmt.Sprintf("The queue %s is paused.", name(q)) },
		many: func(queues int, _ int64) string {
			return fmt.Sprintf("%d queues are paused and have nothing to run", queues)
		}}
	slow := &trouble{
		one: func(q *inspect.QueueInfo, _ int64) string {
			why := "its workers do not keep up"
			if _, slots, taken := alive(*q); slots > 0 && taken >= slots {
				why = fmt.Sprintf("all %d slots of its workers are taken", slots)
			}
			return fmt.Sprintf("The next job of the queue %s has waited %s: %s.", name(q), span(q.Age(broker.StatePending)), why)
		},
		many: func(queues int, _ int64) string {
			return fmt.Sprintf("In %d queues the next job has waited longer than %s", queues, span(longWait))
		}}
	dead := &trouble{dead: true,
		one: func(q *inspect.QueueInfo, n int64) string {
			if n == 1 {
				return fmt.Sprintf("1 dead job in the queue %s waits for a decision.", name(q))
			}
			return fmt.Sprintf("%s dead jobs in the queue %s wait for a decision.", num(n), name(q))
		},
		many: func(queues int, n int64) string {
			return fmt.Sprintf("%s dead jobs in %d queues wait for a decision", num(n), queues)
		}}
	for n := range s.survey.Queues {
		q := &s.survey.Queues[n]
		pending := q.Counts[broker.StatePending]
		due := pending > 0 || q.Age(broker.StateScheduled) > 0 || q.Age(broker.StateRetry) > 0
		if workers, _, _ := alive(*q); due && workers == 0 {
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
	for _, t := range []*trouble{paused, unserved, full, resting, slow, dead} {
		all = append(all, t.alerts()...)
	}
	return all
}

func (t *trouble) add(q *inspect.QueueInfo, jobs int64) {
	t.queues, t.jobs = append(t.queues, q), append(t.jobs, jobs)
}

// alerts returns an alert for each queue, or one for many, which names the queues with the most affected
// jobs.
func (t *trouble) alerts() (all []alert) {
	if len(t.queues) <= alertQueues {
		for n, q := range t.queues {
			to, label := link("queue", "name", q.Name), "Look at the queue"
			if t.dead {
				to, label = link("dead", "queue", q.Name), "Sort them out"
			}
			all = append(all, alert{t.grave, t.one(q, t.jobs[n]), to, label})
		}
		return all
	}
	order := make([]int, len(t.queues))
	var jobs int64
	for n := range order {
		order[n] = n
		jobs += t.jobs[n]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.jobs[b], t.jobs[a]) })
	var names []string
	for _, n := range order[:alertQueues] {
		names = append(names, readable.Cut(text(t.queues[n].Name), 60))
	}
	said := fmt.Sprintf("%s: %s and %d more.", t.many(len(t.queues), jobs), strings.Join(names, ", "), len(order)-alertQueues)
	to, label := "queues", "Look at all queues"
	if t.dead {
		to, label = "dead", "Sort them out"
	}
	return []alert{{t.grave, said, to, label}}
}
