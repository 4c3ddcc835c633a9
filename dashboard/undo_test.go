package dashboard

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/inspect"
)

var undoForm = regexp.MustCompile(`action="(undo\?of=[^"]+)"`)

func TestUndo_TakesBackWhatNobodyClaimed(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i := range 4 {
		s.die("mail", fmt.Sprint("d", i), "email", "no route")
	}
	check := func(verb string, ids ...string) string {
		t.Helper()
		form := url.Values{"verb": {verb}}
		for _, id := range ids {
			form.Add("job", url.Values{"queue": {"mail"}, "id": {id}}.Encode())
		}
		page := s.follow(s.post(303, "act?state=dead", form))
		found := undoForm.FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("%s has no way back:\n%.2000s", verb, body(page))
		}
		return found[1]
	}
	undo := check("redrive", "d0", "d1", "d2")
	s.worker("w", 1, "mail")
	s.claim("w", "mail", 1)
	s.post(403, undo, nil, "Sec-Fetch-Site", "cross-site")
	has(t, s.follow(s.post(303, undo, nil)), "Undone for 2 of 3 jobs", "claimed")
	if dead, active := s.count("mail", broker.StateDead), s.count("mail", broker.StateActive); dead != 3 || active != 1 {
		t.Errorf("%d jobs are dead and %d active, want 3 and 1", dead, active)
	}
	has(t, s.post(409, undo, nil), "can no longer be undone")
	s.post(409, "undo?of=nothing", nil)
	hasNot(t, s.get(200, "job?queue=mail&id=d3"), `value="unsuppress"`) // no button without an effect
	hasNot(t, s.get(200, "jobs?state=dead"), `value="unsuppress"`)
	undo = check("suppress", "d3")
	has(t, s.get(200, "job?queue=mail&id=d3"), `value="unsuppress"`)
	hasNot(t, s.get(200, "job?queue=mail&id=d3"), `value="suppress"`)
	has(t, s.get(200, "jobs?state=dead&suppressed=1"), `value="unsuppress"`)
	if n := len(rows(s.get(200, "jobs?state=dead"))); n != len("d1 d2") {
		t.Errorf("after one of three was suppressed, the list is %q", rows(s.get(200, "jobs?state=dead")))
	}
	s.post(303, undo, nil)
	if j := s.find("mail", "d3"); j.Suppressed {
		t.Error("the suppression was not taken back")
	}
	has(t, s.log.String(), `action="undo redrive" queue=mail jobs=3 done=2 refused=1`)
	// What cannot be undone has no undo button.
	hasNot(t, s.follow(s.post(303, "act?state=dead", url.Values{"verb": {"delete"},
		"job": {url.Values{"queue": {"mail"}, "id": {"d3"}}.Encode()}})), "undo?of")
}

func TestUndo_TakesBackABulkOperation(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i := range 5 {
		s.die("mail", fmt.Sprint("d", i), "email", fmt.Sprint("no route to ", i))
	}
	s.die("mail", "other", "email", "mailbox full")
	of := "state=dead&of-type=email&like=no+route+to+%23"
	bulk := func(verb string, operations int) string {
		t.Helper()
		has(t, s.post(200, "confirm?"+of, url.Values{"verb": {verb}}), "5 jobs", "It can be undone afterwards")
		s.post(303, "bulk?"+of, url.Values{"verb": {verb}})
		s.ended(operations)
		page := s.get(200, "work")
		found := undoForm.FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("%s of a group has no way back:\n%.2000s", verb, body(page))
		}
		return found[1]
	}
	undo := bulk("redrive", 1)
	s.worker("w", 1, "mail")
	s.claim("w", "mail", 2)
	has(t, s.follow(s.post(303, undo, nil)), "Undone for 3 of 5 jobs", "claimed")
	if dead, active := s.count("mail", broker.StateDead), s.count("mail", broker.StateActive); dead != 4 || active != 2 {
		t.Errorf("%d jobs are dead and %d active, want 4 and 2", dead, active)
	}
	hasNot(t, s.get(200, "work"), "undo?of")
	has(t, s.post(409, undo, nil), "can no longer be undone")

	redrive, _ := verbNamed("redrive")
	many := remember(redrive)
	for range maxUndo + 1 {
		many.add(&broker.Job{State: broker.StateDead})
	}
	if many.jobs() > 0 || !many.beyond {
		t.Errorf("of more jobs than an undo may have %d are remembered", many.jobs())
	}
	refused := remember(redrive)
	refused.add(&broker.Job{State: broker.StateDead})
	refused.drop(inspect.Report{Refused: 2, Refusals: make([]inspect.Refusal, 1)}) // it may be the one that is not named
	if refused.jobs() > 0 || !refused.beyond {
		t.Errorf("of more refused jobs than a report names %d are remembered", refused.jobs())
	}
}

// What undos hold is bounded, whatever the jobs are like.
func TestUndo_TheMemoryOfUndosIsBounded(t *testing.T) {
	t.Parallel()
	large := broker.Job{Queue: "mail", ID: "a", State: broker.StateDead}
	large.Payload = make([]byte, 1<<20)
	large.Headers = map[string]string{"h": strings.Repeat("x", broker.MaxHeaderBytes-1)}
	large.Kept = &broker.Kept{Checkpoint: make([]byte, broker.MaxKept)}
	large.Errors.Entries = []broker.Failure{{Message: strings.Repeat("x", broker.MaxErrorBytes)}}
	for name := range undoable {
		v, _ := verbNamed(name)
		large.Suppressed = name == "unsuppress"
		one := remember(v)
		one.add(&large)
		f := one.was["mail"][0]
		if f.Head.Errors.Entries != nil || f.Head.Kept != nil || f.Head.Result != nil {
			t.Errorf("the undo of %s holds %+v", name, f)
		}
	}

	var all notices
	var ids []string
	for range 5 {
		ids = append(ids, all.way(&undo{was: map[string][]former{"mail": make([]former, keptJobs/2)}}))
	}
	left := ""
	for _, id := range ids {
		left += fmt.Sprint(all.get(id).undo != nil, " ")
	}
	if left != "false false false true true " {
		t.Errorf("of five undos of half of the jobs are left: %s; want the newest two", left)
	}
	for range keptUndos {
		ids = append(ids, all.way(new(undo)))
	}
	if old, kept := all.get(ids[4]), all.get(ids[5]); old.undo != nil || kept.undo == nil {
		t.Errorf("of %d newer undos is the oldest kept: %v, and the one before: %v", keptUndos, kept.undo != nil, old.undo != nil)
	}
	u := all.take(ids[6])
	all.putBack(ids[6], u)
	if all.get(ids[6]).undo != u || all.take(ids[6]) != u || all.take(ids[6]) != nil {
		t.Error("an undo that was put back is not there once more")
	}
}

// checked decides about jobs of a queue as a list does, and returns the URL of the undo.
func (s *site) checked(verb string, jobs ...broker.Ref) (undo string) {
	s.t.Helper()
	form := url.Values{"verb": {verb}}
	for _, j := range jobs {
		form.Add("job", url.Values{"queue": {j.Queue}, "id": {j.ID}}.Encode())
	}
	page := s.follow(s.post(303, "act?state=dead&suppressed=1", form))
	found := undoForm.FindStringSubmatch(page)
	if found == nil {
		s.t.Fatalf("%s has no way back:\n%.2000s", verb, body(page))
	}
	return found[1]
}

func TestUndo_WhatIsLeftAfterAFailureCanStillBeUndone(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for _, queue := range []string{"a", "b"} {
		s.die(queue, "1", "email", "no route")
	}
	both := []broker.Ref{{Queue: "a", ID: "1"}, {Queue: "b", ID: "1"}}
	undo := s.checked("suppress", both...)
	s.faults.Set(faulty.Plan{{Method: "Operate", Call: 2, Fault: faulty.Unavailable}})
	has(t, s.post(503, undo, nil), "1 job restored before this", "The store does not answer")
	s.faults.Set(nil)
	s.checked("suppress", both[0]) // another decision about the job that was restored
	has(t, s.follow(s.post(303, undo, nil)), "Undone for 1 of 1 job.")
	if a, b := s.find("a", "1"), s.find("b", "1"); !a.Suppressed || b.Suppressed {
		t.Errorf("suppressed: %v and %v; want the one that was suppressed again, and not the one that was left", a.Suppressed, b.Suppressed)
	}
	has(t, s.post(409, undo, nil), "can no longer be undone")

	// A redrive goes another way.
	undo = s.checked("redrive", both...)
	s.faults.Set(faulty.Plan{{Method: "Find", Fault: faulty.Unavailable}})
	s.post(503, undo, nil)
	s.faults.Set(nil)
	has(t, s.follow(s.post(303, undo, nil)), "Undone for 2 of 2 jobs")
	if a, b := s.find("a", "1"), s.find("b", "1"); a.State != broker.StateDead || b.State != broker.StateDead {
		t.Errorf("the jobs are %s and %s, want both dead", a.State, b.State)
	}
}

func TestUndo_LeavesAloneWhatTheDecisionDidNotChange(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	var all []broker.Ref
	for i := range 4 {
		s.die("mail", fmt.Sprint("d", i), "email", "no route")
		all = append(all, broker.Ref{Queue: "mail", ID: fmt.Sprint("d", i)})
	}
	suppressed := func(want string) {
		t.Helper()
		got := ""
		for _, j := range all {
			if s.find("mail", j.ID).Suppressed {
				got += j.ID
			}
		}
		if got != want {
			t.Errorf("%s are suppressed, want %s", got, want)
		}
	}
	s.checked("suppress", all[0]) // by somebody, earlier
	undo := s.checked("suppress", all[:3]...)
	suppressed("d0d1d2")
	s.post(303, undo, nil)
	suppressed("d0")

	undo = s.checked("unsuppress", all[:2]...)
	suppressed("")
	s.post(303, undo, nil)
	suppressed("d0")

	// The same of all jobs of a filter.
	s.post(303, "bulk?state=dead&suppressed=1", url.Values{"verb": {"suppress"}})
	s.ended(1)
	suppressed("d0d1d2d3")
	s.post(303, undoForm.FindStringSubmatch(s.get(200, "work"))[1], nil)
	suppressed("d0")
}

// A redrive refuses a job whose unique key another one holds. If somebody redrives that job later, an undo of the first
// redrive leaves it alone.
func TestUndo_LeavesAloneWhatTheDecisionRefused(t *testing.T) {
	t.Parallel()
	for _, bulk := range []bool{false, true} {
		s := newSite(t, Config{Authorize: everything})
		unique := func(j *broker.NewJob) { j.Body.Unique = broker.Unique{Key: "k"} }
		s.die("mail", "free", "email", "no route")
		s.die("mail", "held", "email", "no route", unique)
		s.enqueue("mail", "holder", "email", unique)
		undo := ""
		if bulk {
			s.post(303, "bulk?state=dead", url.Values{"verb": {"redrive"}})
			s.ended(1)
			undo = undoForm.FindStringSubmatch(s.get(200, "work"))[1]
		} else {
			undo = s.checked("redrive", broker.Ref{Queue: "mail", ID: "free"}, broker.Ref{Queue: "mail", ID: "held"})
		}
		s.post(303, "act?queue=mail&id=holder", url.Values{"verb": {"cancel"}})
		s.post(303, "act?queue=mail&id=held", url.Values{"verb": {"redrive"}}) // by somebody else
		has(t, s.follow(s.post(303, undo, nil)), "Undone for 1 of 1 job.")
		if free, held := s.find("mail", "free").State, s.find("mail", "held").State; free != broker.StateDead || held != broker.StatePending {
			t.Errorf("bulk %v: the jobs are %s and %s, want the first dead and the other, which was redriven later, pending", bulk, free, held)
		}
	}
}
