package dashboard

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/seed81422ce9/jobs/broker"
)

func TestBrowserAct_EachDecisionIsClicked(t *testing.T) {
	s := newSite(t, Config{Authorize: everything})
	s.fill()
	s.die("mail", "edited", "email", "no such user", payload(`{"user": 1}`))
	b := browse(t, s)

	// One job, through the states that it can be in.
	is := func(queue, id string, want broker.State) {
		t.Helper()
		if j := s.find(queue, id); j.State != want {
			t.Errorf("the job %s is %s, want %s", id, j.State, want)
		}
	}
	b.open("job?queue=mail&id=mail-039")
	b.fill("#in", "2h")
	b.click("button[value=reschedule]")
	b.sees("The job is rescheduled")
	is("mail", "mail-039", broker.StateScheduled)
	b.click("button[value=reschedule]")
	b.until("it is pending", `document.querySelector(".states .chip").textContent === "pending"`)
	b.click("details.confirm:has(button[value=cancel]) summary")
	b.click("button[value=cancel]")
	b.sees("no such job or queue") // this store keeps no cancelled jobs
	b.open("job?queue=mail&id=dead-000")
	b.click("button[value=suppress]")
	b.sees("The job is suppressed")
	b.click("button[value=unsuppress]")
	b.sees("The job is listed again")
	b.click("button[value=redrive]")
	b.sees("The job is redriven")
	is("mail", "dead-000", broker.StatePending)
	b.click("details.confirm:has(button[value=delete]) summary")
	b.sees("This cannot be undone")
	b.click("button[value=delete]")
	b.sees("The job is deleted")
	b.open("job?queue=mail&id=dead-001&show=payload")
	b.sees("Download the payload")
	b.open("job?queue=mail&id=edited&show=payload")
	b.click("details.edit summary")
	b.fill("#edit", `{"user": 2}`)
	b.click("details.edit button[name=redrive]")
	b.sees("The payload was changed. The job was redriven.")
	is("mail", "edited", broker.StatePending)

	// Checked rows.
	b.open("jobs?state=dead&queue=images")
	b.click(`input[aria-label="Check the job broken-001"]`)
	b.click(`input[aria-label="Check the job broken-003"]`)
	b.click("fieldset button[value=redrive]")
	b.sees("2 of 2 jobs redriven")
	is("images", "broken-001", broker.StatePending)
	is("images", "broken-000", broker.StateDead)

	// All jobs that match.
	b.open("jobs?state=dead&queue=images")
	b.fill("#rate", "1000")
	b.click("section[aria-labelledby=bulk] button[value=delete]")
	b.sees("2 jobs will be deleted")
	b.sees("This cannot be undone")
	b.click("#do")
	b.sees("2 done")
	is("images", "broken-000", broker.StateNone)

	// A group of dead jobs, slowly, and stopped.
	b.open("dead?queue=mail")
	b.click("details.decide summary")
	b.fill("#rate-0", "1")
	b.click("details.decide button[value=redrive]")
	b.sees("8 jobs will be redriven")
	b.click("#do")
	b.sees(" of about 8 done")
	b.open("queues") // the operation continues without its page
	b.sees("Live · 1 bulk")
	b.open("work")
	b.click(".operation form button.danger")
	b.sees("Stopped.")
	s.ended(2)
	if n := s.count("mail", broker.StateDead); n < 1 || n > 7 {
		t.Errorf("%d dead jobs are left of 8, or all", n)
	}

	// Queues.
	b.open("queue?name=reports")
	b.click("#pause")
	b.sees("The queue reports is paused")
	b.click("#resume")
	b.sees("The queue reports goes on")
	b.fill("#max-depth", "1234")
	b.fill("#keep-dead", "30d")
	b.click(`form[action^="policy"] button`)
	b.sees("has new rules")
	if p, err := s.handler.inspector.Policy(t.Context(), "reports"); err != nil || p.MaxDepth != 1234 || p.RetainDead.Age != 30*24*time.Hour {
		t.Errorf("the policy is %+v, %v", p, err)
	}
	b.fill("#max-depth", "lots")
	b.click(`form[action^="policy"] button`)
	b.sees("is no whole number")
	if _, err := s.handler.inspector.Purge(t.Context(), "reports", broker.StateScheduled); err != nil {
		t.Fatal(err)
	}
	b.open("queue?name=reports")
	b.click("details.confirm:has(summary) summary")
	b.click("details.confirm button.danger")
	b.sees("The queue reports is forgotten")

	// Schedules.
	b.open("schedules")
	b.click(`a[href="schedule?id=nightly-report"]`)
	b.click("button[value=pause]")
	b.sees("The schedule nightly-report is paused")
	b.click("button[value=resume]")
	b.sees("The schedule nightly-report continues")
	b.click("button[value=run]")
	b.sees("The schedule nightly-report runs as nightly-report@")
	b.click("details.confirm summary")
	b.sees("it comes back when the program starts")
	b.click("button[value=delete]")
	b.sees("The schedule nightly-report is deleted")
	b.sees("every-minute")

	// Finding a job.
	b.fill("#find", "mail-005")
	b.click(".find button")
	b.sees("Job mail-005")
}

func TestBrowserAct_AReadOnlyPageHasNoButtons(t *testing.T) {
	s := newSite(t, Config{})
	s.fill()
	s.order()
	b := browse(t, s)
	for _, path := range allPages {
		if strings.Contains(path, "show=payload") {
			path = "job?queue=mail&id=dead-003"
		}
		b.open(path)
		if n := eval[int](b, `document.querySelectorAll("form[method=post], button[name=verb]").length`); n > 0 {
			t.Errorf("%q has %d forms that decide something", path, n)
		}
	}
}

func TestBrowserAct_FiltersStayInTheAddress(t *testing.T) {
	s := newSite(t, Config{})
	s.fill()
	b := browse(t, s)
	b.open("jobs")
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("f-state").value = "dead";
		document.getElementById("f-queue").value = "mail"; undefined`))
	b.fill("#f-error", "10.0.3.4")
	b.click("#filters button")
	b.sees("dead-003")
	check := func(when string) {
		t.Helper()
		b.until("the search is there "+when, `document.getElementById("f-error")?.value === "10.0.3.4" &&
			document.getElementById("f-state").value === "dead" && document.querySelectorAll("table.jobs tbody tr").length === 1`)
		u, err := url.Parse(eval[string](b, "location.href"))
		if q := u.Query(); err != nil || q.Get("error") != "10.0.3.4" || q.Get("queue") != "mail" || q.Get("state") != "dead" {
			t.Errorf("%s the address is %v, %v", when, u, err)
		}
	}
	check("at first")
	b.do(chromedp.Reload())
	check("after reloading")
	b.click("table.jobs a.id")
	b.sees("Timeline")
	b.do(chromedp.NavigateBack())
	check("after going back")
	b.live()
	check("while it is live")
	b.click(`.tabs a[href*="state=retry"]`)
	b.until("the state changed and the rest stayed", `document.getElementById("f-state").value === "retry" &&
		document.getElementById("f-error").value === "10.0.3.4"`)
}

func TestBrowserAct_PagesAreTurned(t *testing.T) {
	s := newSite(t, Config{})
	for i := range 150 {
		s.enqueue("mail", fmt.Sprintf("m%03d", i), "email")
	}
	b := browse(t, s)
	b.open("jobs?state=pending")
	first := eval[int](b, `document.querySelectorAll("table.jobs tbody tr").length`)
	b.click("#next")
	b.sees("This is the end")
	if second := eval[int](b, `document.querySelectorAll("table.jobs tbody tr").length`); first+second != 150 {
		t.Errorf("the pages have %d and %d jobs, want 150 together", first, second)
	}
	b.do(chromedp.NavigateBack())
	b.sees("There is more")
}

// Browsers do not send Sec-Fetch-Site to plain HTTP under a name other than localhost. Origin
// then tells the site's own forms from others.
func TestBrowserAct_FormsWorkOverPlainHTTPOnANetwork(t *testing.T) {
	s := newSite(t, Config{Authorize: everything})
	s.fill()
	b := browse(t, s)
	b.url = strings.Replace(s.url, "127.0.0.1", "ops.test", 1)
	b.open("queue?name=mail")
	b.click("#pause")
	b.sees("The queue mail is paused")
}
