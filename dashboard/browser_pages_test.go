package dashboard

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed81422ce9/jobs/broker"
)

// allPages are the pages of a site after fill.
var allPages = map[string]string{"overview": "", "queues": "queues", "queue": "queue?name=mail", "jobs": "jobs?state=dead",
	"job":  "job?queue=mail&id=dead-003&show=payload",
	"dead": "dead", "workers": "workers", "worker": "workers?worker=01J9WORKERA", "work": "work", "schedules": "schedules",
	"schedule":  "schedule?id=nightly-report",
	"workflows": "workflows", "workflow": "workflow?id=order-42", "workflow-small": "workflow?id=order-42&zoom=25", "error": "nothing"}

func TestBrowserPages_EveryPageCanBeSeen(t *testing.T) {
	s := newSite(t, Config{Title: "shop", Authorize: everything})
	s.pastWork(2 * time.Hour)
	s.fill()
	s.order()
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	b := browse(t, s)
	for name, path := range allPages {
		b.open(path)
		b.live()
		if name == "overview" || name == "queue" {
			b.until("charts are drawn", `document.querySelectorAll(".chart canvas").length === 5`)
			b.sees("shop v1.4.2 since")
		}
		for _, theme := range []string{"dark", "light"} {
			b.prefers(theme)
			b.accessible(name+", "+theme, string(axe), theme == "light")
			b.screen(name + "-" + theme)
		}
		b.size(360, 740)
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
			t.Errorf("%s is %d wide on a phone of 360", name, wide)
		}
		b.screen(name + "-phone")
		b.size(1280, 900)
	}
}

// accessible checks the page with axe: by WCAG 2.2 AA and axe's best practices, or only
// its colours.
func (b *tab) accessible(name, axe string, wholly bool) {
	b.t.Helper()
	only := ""
	if !wholly {
		only = `, runOnly: ["color-contrast"]`
	}
	if !eval[bool](b, "window.axe !== undefined") {
		b.do(chromedp.Evaluate[chromedp.Void](axe))
	}
	b.do(chromedp.Evaluate[chromedp.Void](`window.axed = null; axe.run(document, {resultTypes: ["violations"]` + only + `}).then(r => {
		window.axed = r.violations.map(v => v.id + ": " + v.help + "\n" + v.nodes.map(n =>
			"  " + n.html.slice(0, 200) + "\n  " + n.any.concat(n.all, n.none).map(c => c.message).join("; ")).join("\n")).join("\n")
	}); undefined`))
	b.until("axe has looked", "window.axed !== null")
	if found := eval[string](b, "window.axed"); found != "" {
		b.t.Errorf("%s is not accessible:\n%s", name, found)
	}
}

func TestBrowserPages_ThePagesAreWalkedWithTheKeyboardAlone(t *testing.T) {
	s := newSite(t, Config{Authorize: everything})
	s.fill()
	b := browse(t, s)
	b.open("")
	b.live()
	b.press(kb.Tab)
	if text := eval[string](b, "document.activeElement.textContent"); text != "Skip to content" {
		t.Errorf("the first stop is %q", text)
	}
	if top := eval[float64](b, "document.activeElement.getBoundingClientRect().top"); top < 0 {
		t.Errorf("the skip link is out of sight at %v", top)
	}
	b.press(kb.Enter)
	b.until("the content has the focus", `document.activeElement.id === "main" || location.hash === "#main"`)
	b.tabTo(`a[href="dead?queue=mail"]`)
	if outline := eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
		t.Errorf("a link with the focus has the outline %q", outline)
	}
	b.press(kb.Enter)
	b.sees("dial tcp #: connection refused")
	b.tabTo("details.decide summary")
	b.press(kb.Enter)
	b.tabTo(`details.decide button[value=redrive]`)
	b.press(kb.Enter)
	b.sees("9 jobs will be redriven")
	b.tabTo("#do")
	b.press(kb.Enter)
	b.sees("It has begun")
	b.sees("9 done")
	if n := s.count("mail", broker.StateDead); n != 0 {
		t.Errorf("%d dead jobs are left", n)
	}
}

// tabTo presses Tab until an element that a selector finds has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 80 {
		b.press(kb.Tab)
		if eval[bool](b, "document.activeElement.matches("+quote(selector)+")") {
			return
		}
	}
	b.t.Fatalf("80 stops do not lead to %s\n%s", selector, b.where())
}

func quote(s string) string { return "`" + s + "`" }

func TestBrowserPages_FocusAndWhatWasOpenedStayWhileThePageIsKeptUpToDate(t *testing.T) {
	s := newSite(t, Config{Authorize: everything})
	s.fill()
	b := browse(t, s)
	b.open("job?queue=mail&id=dead-003")
	b.live()
	b.open("")
	b.live()
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('a[href="queue?name=mail"]').focus();
		window.kept = document.activeElement; undefined`))
	s.enqueue("mail", "new", "email:welcome")
	b.until("the count is new", `document.querySelector(".tile.pending .value").textContent === "38"`)
	if !eval[bool](b, "document.activeElement === window.kept && document.contains(window.kept)") {
		t.Error("the focus was lost when the page was brought up to date")
	}
	b.open("jobs?state=pending&queue=mail")
	b.live()
	b.click("input[name=job]")
	before := eval[string](b, `document.getElementById("live").innerHTML`)
	s.enqueue("mail", "newer", "email:welcome")
	looks := s.handler.poller.last().seq
	eventually(t, func() string {
		if s.handler.poller.last().seq < looks+4 {
			return "no look at the store"
		}
		return ""
	})
	if eval[string](b, `document.getElementById("live").innerHTML`) != before {
		t.Error("the list changed under somebody who is choosing from it")
	}
	b.sees("waits for you")
	b.click("input[name=job]") // unchecked again
	b.until("the list goes on", `document.getElementById("live").innerHTML !== `+"`"+"`"+
		` && document.querySelectorAll("input[name=job]").length >= 36`)
}

func TestBrowserPages_TheThemeIsChosenAndKept(t *testing.T) {
	s := newSite(t, Config{})
	b := browse(t, s)
	b.prefers("light")
	b.open("")
	ground := "getComputedStyle(document.documentElement).backgroundColor"
	light := eval[string](b, ground)
	b.click("#theme")
	dark := eval[string](b, ground)
	if dark == light {
		t.Errorf("the ground is %s in both themes", dark)
	}
	b.open("queues")
	if got := eval[string](b, ground); got != dark {
		t.Errorf("on the next page the ground is %s, want %s", got, dark)
	}
	b.click("#theme")
	b.prefers("dark")
	b.open("")
	if got := eval[string](b, ground); got != light {
		t.Errorf("the system's theme wins over the one that was chosen: %s", got)
	}
}

func TestBrowserPages_PagesWorkWithoutScripts(t *testing.T) {
	s := newSite(t, Config{Authorize: everything})
	s.fill()
	b := browse(t, s)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.open("")
	b.click(`a[href="dead?queue=mail"]`)
	b.do(chromedp.WaitVisible(chromedp.CSS("details.decide summary")))
	b.click("details.decide summary")
	b.click("details.decide button[value=suppress]")
	b.do(chromedp.WaitVisible(chromedp.CSS("#do")))
	b.click("#do")
	b.do(chromedp.WaitVisible(chromedp.CSS(".operation")))
	s.ended(1)
	b.open("jobs?state=dead&queue=mail")
	b.do(chromedp.WaitVisible(chromedp.CSS("#filters")))
	b.click("nav a[href=workers]")
	b.do(chromedp.WaitVisible(chromedp.CSS(`a[href="workers?worker=01J9WORKERB"]`)))
}

func TestBrowserPages_APageAsksNobodyElse(t *testing.T) {
	s := newSite(t, Config{})
	b := browse(t, s)
	b.open("")
	b.live()
	for _, address := range eval[[]string](b, `performance.getEntriesByType("resource").map(e => e.name)`) {
		if !strings.HasPrefix(address, s.url) {
			t.Errorf("the page asked for %s", address)
		}
	}
}

// Fields of forms are aligned, and the buttons for checked jobs stay visible with a
// long table.
func TestBrowserPages_FormsAreInShape(t *testing.T) {
	s := newSite(t, Config{Authorize: everything})
	for i := range 40 {
		s.enqueue("mail", fmt.Sprintf("job-%02d", i), "x")
	}
	b := browse(t, s)
	b.size(1280, 700)
	b.open("jobs?state=pending&queue=mail")
	if uneven := eval[float64](b, `(h => Math.max(...h) - Math.min(...h))([
		...document.querySelectorAll("#filters .field:not(.check) input, #filters .field select")
	].map(e => e.getBoundingClientRect().height))`); uneven != 0 {
		t.Errorf("the fields of the filter differ in height by %v px", uneven)
	}
	if eval[bool](b, `document.documentElement.scrollHeight <= innerHeight`) {
		t.Fatal("the table is too short for this test")
	}
	b.do(chromedp.Evaluate[chromedp.Void](`scrollTo(0, 500); undefined`))
	if under := eval[float64](b, `document.querySelector("fieldset.row").getBoundingClientRect().bottom - innerHeight`); under > 0 {
		t.Errorf("the buttons for the checked jobs are %v px below the window", under)
	}
	b.screen("jobs-bar-1280")
}

// No page scrolls sideways at 375 px.
func TestBrowserPages_FitAPhone(t *testing.T) {
	s := newSite(t, Config{Title: "shop", Authorize: everything, Interval: time.Hour})
	s.fill()
	long := strings.Repeat("a-queue-with-a-long-name.", 10)
	s.die(long, strings.Repeat("id", 100), strings.Repeat("type:", 40), strings.Repeat("error", 100))
	b := browse(t, s)
	fits := func(what string) {
		t.Helper()
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 375 {
			t.Errorf("%s is %d wide on a phone of 375", what, wide)
		}
		wide := `[...document.querySelectorAll(".scroll:not(.graph)")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel).join()`
		if tables := eval[string](b, wide); tables != "" {
			t.Errorf("%s scrolls sideways in: %s", what, tables)
		}
	}
	b.size(375, 740)
	q := url.QueryEscape(long)
	for _, path := range []string{"", "?span=live", "queue?name=" + q, "jobs?state=dead", "jobs?state=dead&queue=mail", "jobs?id=nothing",
		"jobs?state=pending", "queues", "workers",
		"jobs?state=pending&older=nonsense", "dead", "work", "job?queue=mail&id=mail-010&show=payload", "keys?queue=mail"} {
		b.open(path)
		fits("the page " + path)
		b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => d.open = true); undefined`))
		fits("the page " + path + " with all opened")
	}
	b.open("jobs?state=dead&queue=" + q)
	b.click("#check-all")
	if !eval[bool](b, `document.querySelector("input[name=job]").checked`) {
		t.Error("the box in the head checks no row")
	}
	b.click("section[aria-labelledby=bulk] button[value=suppress]")
	b.sees("1 job will be suppressed")
	fits("the question before a decision")
	b.screen("confirm-375")
	b.click("#do")
	b.sees("1 done")
	fits("an operation")
	b.open("")
	b.click("#open-palette")
	b.until("the palette has the queues", `document.querySelectorAll("#palette-list li").length > 8`)
	b.fill("#palette input", long[:60])
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#palette input").dispatchEvent(new Event("input")); undefined`))
	fits("the palette")
	b.screen("palette-375")
}

func TestBrowserPages_ThePaletteGoesToPagesAndQueues(t *testing.T) {
	s := newSite(t, Config{})
	s.fill()
	s.enqueue(script, "a", "email")
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	b := browse(t, s)
	b.open("workers")
	b.live()
	open := `document.getElementById("palette").open`
	b.do(chromedp.Evaluate[chromedp.Void](`
		document.dispatchEvent(new KeyboardEvent("keydown", {key: "k", ctrlKey: true, bubbles: true})); undefined`))
	b.until("the palette is open, with the queues", open+` && document.querySelectorAll("#palette-list li").length > 8`)
	b.accessible("palette", string(axe), true)
	b.screen("palette")
	if eval[bool](b, "window.hacked !== undefined") || eval[int](b, `document.querySelectorAll("#palette img").length`) > 0 {
		t.Error("the name of a queue ran in the palette")
	}
	b.press("i", "m", "a", kb.ArrowDown, kb.Enter) // images, and then its dead jobs
	b.until("it went to the dead jobs", `location.href.endsWith("dead?queue=images")`)
	b.do(chromedp.WaitVisible(chromedp.CSS("#main")))
	b.live()
	b.press("/")
	b.until("a slash opens it", open)
	b.press(kb.Escape)
	b.until("it is closed", "!"+open)
	b.click("#open-palette")
	b.until("it is open again", open)
	b.press("m", "a", "i", "l", "-", "0", "0", "5", kb.Enter)
	b.sees("Job mail-005")
	b.open("jobs")
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("f-type").focus(); undefined`))
	b.press("/")
	if eval[string](b, `document.getElementById("f-type").value`) != "/" || eval[bool](b, open) {
		t.Error("a slash in a field opens the palette")
	}
}
