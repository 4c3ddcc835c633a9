// Package examinetest tests that a backend finds and repairs what is wrong in its store, and reports
// nothing else. It has a table of corruptions. Each is planted into a store with a job in every state.
package examinetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Queue holds the jobs of a population. Worker holds the active ones.
const (
	Queue  = "q"
	Worker = "w"
)

// Start is the virtual time at which a population is stored.
var Start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// Later is the virtual time of the examination: no job has become due, and no lease has run out.
var Later = Start.Add(time.Second)

// Examine examines a store, or one queue, completely and returns the findings. It fails the test if a
// step reads more records than its limit.
func Examine(tb testing.TB, b broker.Broker, req broker.ExamineRequest) []broker.Finding {
	tb.Helper()
	findings, err := All(tb.Context(), b, req, nil)
	if err != nil {
		tb.Fatalf("Examine: %v", err)
	}
	return slices.DeleteFunc(findings, func(f broker.Finding) bool { return ofTestServers[f.Code] })
}

// ofTestServers lists findings that do not count: settings of test servers, which favour speed over
// durability.
var ofTestServers = map[string]bool{"server-not-persistent": true, "commits-not-durable": true}

// All runs an examination to its end and calls step after each step.
func All(ctx context.Context, b broker.Broker, req broker.ExamineRequest, step func(broker.Examined)) (findings []broker.Finding,
	err error) {
	for {
		got, err := b.Examine(ctx, req)
		if findings = append(findings, got.Findings...); err != nil {
			return findings, err
		}
		if step != nil {
			step(got)
		}
		if req.Cursor = got.Cursor; req.Cursor == "" {
			return findings, nil
		}
	}
}

// Corruption is one row of the table.
type Corruption struct {
	Name string
	// Plant corrupts a populated store.
	Plant func(testing.TB, broker.Broker)
	// Want lists the expected findings, each as "code id".
	Want []string
	// Repairs lists the expected findings of an examination that repairs, where they differ from Want.
	Repairs []string
	// Left says that the corruption cannot be repaired: the next examination finds it again.
	Left bool
	// Then gives the state after the repair of jobs whose state changes.
	Then map[string]broker.State
	// Check, if set, checks the store after the repair.
	Check func(testing.TB, broker.Broker)
}

// Run plants each corruption into a store from open. It expects the finding, the repair, and that all
// jobs can run afterwards.
func Run(t *testing.T, open func(testing.TB) broker.Broker, table []Corruption) {
	for _, c := range table {
		t.Run(strings.ReplaceAll(c.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			b := open(t)
			Populate(t, b)
			req := broker.ExamineRequest{Now: Later, Limit: 3}
			if found := Examine(t, b, req); len(found) > 0 {
				t.Fatalf("findings before anything is wrong:\n%s", text(found))
			}
			c.Plant(t, b)
			compare(t, "found", Examine(t, b, req), c.Want)
			only := req
			only.Queue = Queue
			if found := Examine(t, b, only); len(found) > len(c.Want) {
				t.Errorf("findings of the queue alone:\n%s", text(found))
			}
			req.Fix = true
			repaired := Examine(t, b, req)
			if c.Repairs == nil {
				c.Repairs = c.Want
			}
			compare(t, "found for repair", repaired, c.Repairs)
			for _, f := range repaired {
				if f.Fixed == c.Left {
					t.Errorf("repaired: %t, want %t: %+v", f.Fixed, !c.Left, f)
				}
				if f.Means == "" || f.What == "" || !f.Fixed && f.Left == "" && f.Repair != "" {
					t.Errorf("the finding has no description: %+v", f)
				}
			}
			again := Examine(t, b, broker.ExamineRequest{Now: Later})
			if c.Left {
				compare(t, "found again", again, c.Want)
				return
			}
			if len(again) > 0 {
				t.Fatalf("findings after the repair:\n%s", text(again))
			}
			if c.Check != nil {
				c.Check(t, b)
			}
			c.states(t, b)
			drain(t, b)
			for more := true; more; {
				got, err := b.Prune(t.Context(), broker.PruneRequest{Now: muchLater, Queues: []string{Queue}, Max: 100})
				if err != nil {
					t.Fatal(err)
				}
				more = got.More
			}
			if found := Examine(t, b, broker.ExamineRequest{Now: muchLater}); len(found) > 0 {
				t.Errorf("findings after all jobs have run:\n%s", text(found))
			}
		})
	}
}

func text(findings []broker.Finding) string {
	var s strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&s, "%+v\n", f)
	}
	return s.String()
}

func compare(tb testing.TB, what string, got []broker.Finding, want []string) {
	tb.Helper()
	var names []string
	for _, f := range got {
		names = append(names, f.Code+" "+f.ID)
	}
	slices.Sort(names)
	want = slices.Clone(want)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		tb.Fatalf("%s: %q, want %q\n%s", what, names, want, text(got))
	}
}

// states compares the states of all jobs with those of the population.
func (c *Corruption) states(tb testing.TB, b broker.Broker) {
	tb.Helper()
	want := make(map[string]broker.State)
	for id, s := range populated {
		want[id] = s
	}
	for id, s := range c.Then {
		want[id] = s
	}
	ids := make([]string, 0, len(want))
	for id := range want {
		ids = append(ids, id)
	}
	page, err := b.Find(tb.Context(), broker.Query{Now: Later, Queue: Queue, IDs: ids, Suppressed: true})
	if err != nil {
		tb.Fatal(err)
	}
	got := make(map[string]broker.State)
	for _, j := range page.Jobs {
		got[j.ID] = j.State
	}
	for id, s := range want {
		if got[id] != s {
			tb.Errorf("job %s is %v after the repair, want %v", id, got[id], s)
		}
	}
}
