package storedtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// View returns all that a program sees in a store that Write filled: a line of JSON for each job, queue, key and mark.
func View(tb testing.TB, b broker.Broker) string {
	tb.Helper()
	v := view{tb: tb}
	seen := Start.Add(30 * time.Second)
	for _, queue := range Queues {
		info, err := b.Queues(tb.Context(), broker.QueuesRequest{Now: seen, Names: []string{queue}, Workers: true})
		if err != nil || len(info.Queues) != 1 {
			tb.Fatalf("Queues: %+v, %v", info, err)
		}
		q := info.Queues[0]
		q.AsOf = time.Time{}
		for i := range q.Workers {
			q.Workers[i].Held = 0 // may be up to a minute old
		}
		v.line("queue", q)
		var found []broker.Job
		for _, state := range broker.States() {
			page, err := b.Find(tb.Context(), broker.Query{Now: seen, Queue: queue, State: state, Suppressed: true, Limit: 1000})
			if err != nil || page.Cursor != "" {
				tb.Fatalf("Find of %v: cursor %q, %v", state, page.Cursor, err)
			}
			found = append(found, page.Jobs...)
		}
		slices.SortFunc(found, func(a, b broker.Job) int { return strings.Compare(a.ID, b.ID) })
		for _, j := range found {
			v.line("job", j)
		}
		keys, err := b.Keys(tb.Context(), broker.KeysRequest{Now: seen, Queue: queue})
		if err != nil {
			tb.Fatalf("Keys: %v", err)
		}
		for _, k := range keys.Keys {
			v.line("key", k)
		}
	}
	s := step{tb: tb, b: b}
	for _, name := range []string{"taken", "lapsed", "dropped"} {
		v.line("mark "+name, s.mark(broker.MarkRequest{Now: seen, Action: broker.MarkRead, Name: name}))
	}
	return v.text.String()
}

type view struct {
	tb   testing.TB
	text strings.Builder
}

func (v *view) line(what string, of any) {
	v.tb.Helper()
	p, err := json.Marshal(of)
	if err != nil {
		v.tb.Fatal(err)
	}
	v.text.WriteString(what + " " + string(p) + "\n")
}
