package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// inMemory returns a command with its own store in memory.
func inMemory(t *testing.T) (*cli, *membroker.Store) {
	store := membroker.NewStore()
	return &cli{t: t, url: "memory://", open: func(context.Context, string) (broker.Broker, error) { return store.Open(), nil }}, store
}

// deaths describes dead jobs of one kind: n of them, one per second; ago is how long
// ago the newest died.
type deaths struct {
	queue, typ, message string // %d in the message stands for the job's number
	reason              broker.DeadReason
	n                   int
	ago                 time.Duration
}

// bury stores dead jobs.
func bury(t *testing.T, store *membroker.Store, all ...deaths) {
	t.Helper()
	b := store.Open()
	defer b.Close()
	now := time.Now()
	var req broker.EnqueueRequest
	for _, d := range all {
		for i := range d.n {
			end := now.Add(-d.ago - time.Duration(i)*time.Second)
			req.Jobs = append(req.Jobs, broker.NewJob{Queue: d.queue, ID: fmt.Sprintf("%s-%s-%v-%d", d.queue, d.typ, d.reason, i),
				Body: broker.Body{Type: d.typ, Priority: broker.PriorityNormal},
				Restore: &broker.Restored{State: broker.StateDead, CreatedAt: end, Head: broker.Head{Reason: d.reason, FinishedAt: end,
					Errors: broker.ErrorLog{Entries: []broker.Failure{{At: end, Message: strings.ReplaceAll(d.message, "%d", fmt.Sprint(i))}}}}}})
		}
	}
	for len(req.Jobs) > 0 {
		n := min(len(req.Jobs), 1000)
		receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: req.Jobs[:n]})
		for _, r := range receipts {
			if err != nil || r.Err != nil {
				t.Fatal(err, r.Err)
			}
		}
		req.Jobs = req.Jobs[n:]
	}
}

func TestDLQ_ListTakesTheNewestOfEachQueueInTurn(t *testing.T) {
	t.Parallel()
	c, store := inMemory(t)
	bury(t, store, deaths{"a", "x", "old %d", broker.ReasonRetries, 100, time.Hour},
		deaths{"b", "x", "young %d", broker.ReasonRetries, 3, time.Minute}, deaths{"c", "x", "of %d", broker.ReasonRetries, 40, 2 * time.Hour})
	var order []string
	for line := range strings.Lines(c.run(0, "dlq", "list", "--limit", "11", "--json")) {
		var v jobView
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		order = append(order, v.ID)
	}
	want := "b-x-retries_spent-0 b-x-retries_spent-1 b-x-retries_spent-2 a-x-retries_spent-0 a-x-retries_spent-1 a-x-retries_spent-2 " +
		"a-x-retries_spent-3 c-x-retries_spent-0 c-x-retries_spent-1 c-x-retries_spent-2 c-x-retries_spent-3"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("the list is\n%s\nwant as many of each queue as there is room for, the newest first:\n%s", got, want)
	}
	if n := strings.Count(c.run(0, "dlq", "list", "--limit", "0"), "\n"); n != 144 {
		t.Errorf("without a limit it has %d lines, want 143 jobs and the heads", n)
	}
}

func TestDLQ_GroupsAreBoundedInNumber(t *testing.T) {
	t.Parallel()
	c, store := inMemory(t)
	var all []deaths
	for i := range inspect.MaxGroups + 2 {
		all = append(all, deaths{"mail", fmt.Sprint("t", i), "no route", broker.ReasonRetries, 1, time.Minute})
	}
	bury(t, store, all...)
	c.has(c.run(0, "dlq", "groups", "--limit", "0"), "2 more jobs have other types or errors: at most 5,000 groups are made.")
}

func TestDLQ_AGroupIsDecidedAboutAsOne(t *testing.T) {
	t.Parallel()
	c, store := inMemory(t)
	bury(t, store, deaths{"mail", "email:send", `no user "u%d"`, broker.ReasonSkipRetry, 7, time.Hour},
		deaths{"news", "email:send", `no user "v%d"`, broker.ReasonSkipRetry, 5, time.Minute},
		deaths{"mail", "email:send", "no user left after %d s", broker.ReasonRetries, 20, 2 * time.Hour},
		deaths{"mail", "email:late", `no user "u%d"`, broker.ReasonSkipRetry, 1, 3 * time.Hour})
	var groups []groupView
	for line := range strings.Lines(c.run(0, "dlq", "groups", "--json")) {
		var g groupView
		if err := json.Unmarshal([]byte(line), &g); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g)
	}
	if len(groups) != 3 || groups[0].Count != 12 || len(groups[0].Queues) != 2 || groups[1].Count != 20 || groups[2].Type != "email:late" {
		t.Fatalf("the groups are %+v, want the one with the newest job first", groups)
	}
	g, sum := groups[0], 0
	for _, n := range g.Deaths {
		sum += n
	}
	if sum != 12 || g.Deaths[len(g.Deaths)-1] != 5 || g.PerMinute < 0.1 || g.PerMinute > 0.3 {
		t.Errorf("of 12 that died within an hour, 5 of them last, the trend is %v and the rate %v a minute", g.Deaths, g.PerMinute)
	}
	c.has(c.run(0, "dlq", "groups"), `COUNT +GROUP +RATE +TREND +TYPE`,
		`(?m)^12 +`+g.Group+` +\d+/h +[.▁-█]{12} +email:send +no user "…"`)
	c.has(c.run(0, "dlq", "groups", "--sort", "-count"), `\n20 +`)

	if n := strings.Count(c.run(0, "dlq", "list", "--group", g.Group, "--json"), "\n"); n != 12 {
		t.Errorf("%d jobs of the group of 12 are listed", n)
	}
	c.has(c.run(7, "dlq", "redrive", "--group", strings.ToUpper(g.Group)),
		`Really redrive 12 jobs of the group `+g.Group, `email:send: no user "…"`)
	c.has(c.run(0, "dlq", "redrive", "--group", g.Group, "--queue", "news", "--dry-run"), `^5 jobs would be redriven`)
	c.stdin = "y\n"
	c.has(c.run(0, "dlq", "redrive", "--group", g.Group), `^12 of 12 jobs redriven\.\n$`)
	c.stdin = ""
	c.has(c.run(0, "stats", "--json"), `"pending":7[,}]`, `"dead":21[,}]`, `"pending":5[,}]`)
	c.has(c.run(0, "dlq", "suppress", "--group", groups[1].Group, "--yes"), `^20 of 20 `)
	c.has(c.run(0, "dlq", "unsuppress", "--group", groups[1].Group, "--dry-run"), `^20 jobs would be listed again`)
	c.has(c.run(3, "dlq", "redrive", "--group", g.Group), "no dead job belongs to the group "+g.Group)
	c.has(c.run(2, "delete", "--state", "pending", "--group", g.Group), "--state dead")
}

func TestDLQ_FiltersByReason(t *testing.T) {
	t.Parallel()
	c, store := inMemory(t)
	bury(t, store, deaths{"mail", "x", "e %d", broker.ReasonCrashes, 3, time.Hour},
		deaths{"mail", "x", "e %d", broker.ReasonExpired, 4, time.Hour})
	if n := strings.Count(c.run(0, "dlq", "list", "--reason", "crashes_spent", "--json"), `"reason":"crashes_spent"`); n != 3 {
		t.Errorf("%d of 3 jobs that crashed are listed", n)
	}
	c.has(c.run(0, "redrive", "--reason", "expired", "--dry-run"), `^4 jobs would`)
	c.has(c.run(2, "dlq", "list", "--reason", "bored"), "unknown reason", "crashes_spent, expired")
	c.has(c.run(2, "ls", "--reason", "expired"), "--state dead")
	for r := broker.ReasonNone + 1; !strings.HasPrefix(r.String(), "reason("); r++ {
		if want := r.String(); !strings.Contains(strings.Join(texts(reasons), " "), want) {
			t.Errorf("--reason does not know %s", want)
		}
	}
}

// A user who searches a million dead jobs reads first how many there are, and sees the
// first matches while the search goes on.
func TestDLQ_ASearchShowsItsSizeAndWhatItFoundSoFar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := membroker.NewStore()
		bury(t, store, deaths{"mail", "x", "code %d.", broker.ReasonRetries, 12_000, time.Minute})
		slow := broker.Wrap(store.Open(), func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Find" {
				time.Sleep(time.Second)
			}
			return next(ctx)
		})
		defer slow.Close()
		begun := time.Now()
		var lines []string
		note := func(p []byte) (int, error) {
			for line := range strings.Lines(string(p)) {
				lines = append(lines, fmt.Sprintf("%d %s", int(time.Since(begun).Seconds()),
					regexp.MustCompile(` .*code `).ReplaceAllString(line, " code ")))
			}
			return len(p), nil
		}
		code := run(t.Context(), []string{"--broker", "x", "dlq", "list", "--error", "967."}, environment{in: strings.NewReader(""),
			out: writerFunc(note), err: writerFunc(note), getenv: func(string) string { return "" },
			home: func() (string, error) { return "", nil }, open: func(context.Context, string) (broker.Broker, error) { return slow, nil }})
		text := strings.Join(lines, "")
		for _, want := range []string{
			`^0 Looking through 12,000 dead jobs, the newest first.\n2 QUEUE `, `\n2 mail code 967\.\n2 mail code 1967\.`,
			`\n3 mail code 5967\.`, `\n4 mail code 11967\.\n$`} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("what it says, behind the second in which it says it, does not match %s; exit %d\n%s", want, code, text)
			}
		}
	})
}

func TestListing_WhatIsWrittenEarlyLinesUpAndIsNotCut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{environment: environment{out: &out, err: &out}}
	l := a.newList([]column{{head: "A"}, {head: "B"}})
	for _, row := range [][]any{{"a", "b"}, {"much wider", "c"}, {"d", "e"}} {
		l.add(nil, row...)
		if err := l.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.end(); err != nil {
		t.Fatal(err)
	}
	if want := "A  B\na  b\nmuch wider  c\nd           e\n"; out.String() != want {
		t.Errorf("the list is\n%s\nwant\n%s", &out, want)
	}
}

func TestInTurn_EndsWithAnError(t *testing.T) {
	t.Parallel()
	_, store := inMemory(t)
	bury(t, store, deaths{"a", "x", "e", broker.ReasonRetries, 3, 0})
	b := store.Open()
	defer b.Close()
	i := inspect.New(b)
	n := 0
	var last error
	good, bad := i.Select(inspect.Query{Queue: "a", State: broker.StateDead}), i.Select(inspect.Query{Queue: "{"})
	for _, err := range inspect.InTurn(t.Context(), 0, good, bad) {
		n, last = n+1, err
	}
	if n != 2 || last == nil {
		t.Errorf("a listing of a queue and of a wrong one gives %d things, the last one %v; want a job and an error", n, last)
	}
}
