package inspect

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestDeadGroups_TakeTheNewestOfEachQueueInTurn(t *testing.T) {
	t.Parallel()
	b := newStore(t)
	now := time.Now()
	die := func(queue string, n int, typ, message string, ago time.Duration) {
		t.Helper()
		req := broker.EnqueueRequest{}
		for i := range n {
			end := now.Add(-ago - time.Duration(i)*time.Second)
			req.Jobs = append(req.Jobs, broker.NewJob{Queue: queue, ID: fmt.Sprint(typ, message, i),
				Body: broker.Body{Type: typ, Priority: broker.PriorityNormal},
				Restore: &broker.Restored{State: broker.StateDead, CreatedAt: end, Head: broker.Head{Reason: broker.ReasonRetries, FinishedAt: end,
					Errors: broker.ErrorLog{Entries: []broker.Failure{{At: end, Message: fmt.Sprintf(message, i)}}}}}})
		}
		receipts, err := b.Enqueue(t.Context(), req)
		for _, r := range receipts {
			if err != nil || r.Err != nil {
				t.Fatal(err, r.Err)
			}
		}
	}
	die("a", 250, "mail", "user %d not found", 10*time.Hour) // old jobs, in the queue that is first by name
	die("b", 30, "mail", "user %d not found", time.Minute)
	die("c", 5, "report", "disk %d is full", time.Minute)

	groups, all, err := New(b).DeadGroups(t.Context(), 1000)
	if err != nil || !all || groups.Looked != 285 {
		t.Fatalf("looked at %d, all: %v, %v", groups.Looked, all, err)
	}
	list := groups.List()
	if len(list) != 2 || list[0].Count != 280 || list[0].Fingerprint != "user # not found" || list[1].Count != 5 || len(list[0].Queues) != 2 {
		t.Errorf("the groups are %+v", list)
	}
	if g := list[0]; now.Sub(g.Last) > 2*time.Minute || now.Sub(g.First) < 10*time.Hour || g.Message != "user 0 not found" ||
		len(g.Examples) != 3 {
		t.Errorf("the first and the last of the group are %v and %v, the newest message is %q", g.First, g.Last, g.Message)
	}
	if r := list[1].PerMinute(); r < 59.9 || r > 60.1 {
		t.Errorf("five jobs died within four seconds, and the rate is %v a minute, want 60", r)
	}
	if r := (&Group{Count: 1, First: now, Last: now}).PerMinute(); r != 0 {
		t.Errorf("the rate of one job is %v, want 0: not known", r)
	}
	for at, e := range []broker.Ref{list[0].Examples[0], list[1].Examples[0]} {
		j, err := New(b).Job(t.Context(), e.Queue, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if list[1].Has(j) != (at == 1) {
			t.Errorf("the second group has %v: %v", e, at != 1)
		}
	}

	few, all, err := New(b).DeadGroups(t.Context(), 120)
	if list := few.List(); err != nil || all || len(list) != 2 || few.Looked >= 285 {
		t.Errorf("of the first 120 there are %d groups, %d jobs, all: %v, %v; want those of each queue", len(list), few.Looked, all, err)
	}
	one, _, err := New(b).DeadGroups(t.Context(), 1000, "c")
	if err != nil || one.Looked != 5 {
		t.Errorf("of one queue %d were looked at, %v", one.Looked, err)
	}
}

func TestGroups_AreBoundedInNumber(t *testing.T) {
	t.Parallel()
	var all Groups
	add := func(typ string) {
		all.Add(&broker.Job{Queue: "mail", ID: "a", Body: broker.Body{Type: typ}, Head: broker.Head{FinishedAt: time.Now()}})
	}
	for i := range MaxGroups {
		add(fmt.Sprint("type", i))
	}
	if all.Others != 0 {
		t.Errorf("of %d groups %d are left out", MaxGroups, all.Others)
	}
	add("one more")
	add("and another")
	add("type0") // a known group still grows
	if list := all.List(); len(list) != MaxGroups || all.Looked != MaxGroups+3 || all.Others != 2 || list[0].Count != 2 {
		t.Errorf("there are %d groups of %d jobs, and %d others; the largest has %d", len(list), all.Looked, all.Others, list[0].Count)
	}
}
