package dashboard

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/internal/testenv/browser"
)

func TestBrowserLive_APageShowsWhatHappens(t *testing.T) {
	s := newSite(t, Config{})
	s.fill()
	b := browse(t, s)
	b.open("?span=live")
	b.live()
	b.until("charts are drawn", `document.querySelectorAll(".chart canvas").length === 2`)
	for i := range 3 {
		s.enqueue("fresh", fmt.Sprint(i), "email")
	}
	b.until("the new queue is there", `[...document.querySelectorAll("tbody th a")].some(a => a.textContent === "fresh")`)
	b.until("the charts go on", `document.querySelector(".chart .u-series:nth-child(2) .u-value").textContent === "40"`)
	b.open("jobs?queue=fresh")
	b.live()
	s.enqueue("fresh", "late", "email")
	b.sees("late")
	b.open("job?queue=fresh&id=late")
	b.live()
	s.worker("w", 9, "fresh")
	s.claim("w", "fresh", 4)
	b.until("the job runs", `document.querySelector(".states .chip").textContent === "active"`)
	b.sees("is held by worker w")
}

func TestBrowserLive_ChartsAreInUTCLikeThePages(t *testing.T) {
	s := newSite(t, Config{})
	s.pastWork(2 * time.Hour)
	var reply struct {
		History struct {
			Deploys []struct{ At time.Time }
			Periods []struct{ Until time.Time }
		}
	}
	if err := json.Unmarshal([]byte(s.get(200, "stats?span=24h")), &reply); err != nil || len(reply.History.Deploys) == 0 {
		t.Fatalf("the history is %+v, %v", reply, err)
	}
	b := browse(t, s)
	_, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
	if err != nil {
		t.Fatal(err)
	}
	b.open("?span=24h")
	b.until("charts are drawn", `document.querySelectorAll(".chart canvas").length === 5`)
	deploy := reply.History.Deploys[len(reply.History.Deploys)-1].At.UTC().Format("15:04")
	b.until("deploys are in UTC, "+deploy, fmt.Sprintf(
		`[...document.getElementById("charts-say").textContent.matchAll(/in UTC:.* since (\d\d:\d\d)/g)].some(m => m[1] === %q)`, deploy))
	b.until("the legend is in UTC", `document.querySelector(".chart .u-series .u-label").textContent.includes("UTC")`)
	legend := eval[string](b, `document.querySelector(".chart .u-series .u-value").textContent`)
	newest := reply.History.Periods[len(reply.History.Periods)-1].Until.UTC()
	for ago := range 15 { // the legend shows the newest step that has values
		if legend == newest.Add(-time.Duration(ago)*time.Minute).Format("15:04") {
			return
		}
	}
	t.Errorf("the newest step is of %s, and the legend says %s", newest.Format("15:04"), legend)
}

func TestBrowserLive_APageOutlivesItsStore(t *testing.T) {
	redis := testenv.PrivateRedis(t)
	store, err := backends.Open(t.Context(), redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := siteOf(t, store, Config{})
	s.enqueue("mail", "a", "email")
	b := browse(t, s)
	b.open("queues")
	b.live()
	b.expectCuts()
	redis.Kill()
	b.sees("The store has not answered since")
	b.sees("Store away")
	if text := eval[string](b, `document.querySelector("tbody th a").textContent`); text != "mail" {
		t.Errorf("the page lost what it showed: %q", text)
	}
	b.screen("store-away")
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	b.live()
	b.until("the banner is gone", `document.getElementById("trouble").textContent === ""`)
	s.enqueue("post", "b", "letter")
	b.until("the page goes on", `document.querySelectorAll("tbody th a").length === 2`)
}

func TestBrowserLive_APageOpenedWithoutAStoreShowsItWhenItComes(t *testing.T) {
	s := newSite(t, Config{})
	s.enqueue("mail", "a", "email")
	s.faults.Set(faulty.Plan{{Fault: faulty.Unavailable}})
	b := browse(t, s)
	b.expectCuts()
	b.open("queues")
	b.sees("The store does not answer")
	s.faults.Set(nil)
	b.live()
	b.until("the queue is there", `document.querySelector("tbody th a")?.textContent === "mail"`)
}

func TestBrowserLive_APageOutlivesTheDashboard(t *testing.T) {
	s := newSite(t, Config{})
	s.enqueue("mail", "a", "email")
	b := browse(t, s)
	b.open("")
	b.live()
	b.expectCuts()
	s.away.Store(true)
	s.server.CloseClientConnections()
	b.sees("The dashboard does not answer")
	s.away.Store(false)
	b.live()
	b.until("the banner is gone", `document.getElementById("trouble").textContent === ""`)
}

// A browser opens only six connections to a host, so tabs share one for events.
func TestBrowserLive_MoreTabsThanConnectionsStayLive(t *testing.T) {
	s := newSite(t, Config{})
	s.fill()
	profile := browse(t, s) // which ends with its first tab
	var tabs []*tab
	for range 8 {
		ctx, end := chromedp.NewContext(browser.Root(t), chromedp.WithNewWindow(true),
			chromedp.WithExistingBrowserContext(chromedp.FromContext(profile.ctx).BrowserContextID))
		t.Cleanup(end)
		tabs = append(tabs, newTab(t, s, ctx))
	}
	paths := []string{"", "queues", "jobs?state=dead", "workers"}
	for i, b := range tabs {
		b.open(paths[i%len(paths)])
	}
	for _, b := range tabs {
		b.live()
	}
	visible := 0
	for _, b := range tabs {
		if eval[string](b, "document.visibilityState") == "visible" {
			visible++
		}
	}
	if visible < 7 {
		t.Errorf("only %d tabs of %d are visible: this test shows nothing", visible, len(tabs))
	}
	streams := func() int {
		s.handler.poller.mu.Lock()
		defer s.handler.poller.mu.Unlock()
		return len(s.handler.poller.pages)
	}
	if n := streams(); n != 1 {
		t.Errorf("%d tabs hold %d streams, want one", len(tabs), n)
	}
	s.enqueue("fresh", "a", "email")
	for i, b := range tabs {
		if paths[i%len(paths)] == "queues" {
			b.sees("fresh")
		}
	}
	// The tab that listens for all is closed: another takes over.
	if err := chromedp.Cancel(tabs[0].ctx); err != nil {
		t.Fatal(err)
	}
	s.enqueue("fresher", "a", "email")
	tabs[1].sees("fresher")
	tabs[5].sees("fresher")
	tabs[5].live()
	if n := streams(); n != 1 {
		t.Errorf("after one was closed there are %d streams, want one", n)
	}
}

func TestBrowserLive_NothingThatOthersWroteRuns(t *testing.T) {
	s := newSite(t, Config{Authorize: everything, Title: script})
	s.infest()
	b := browse(t, s)
	b.size(360, 740)
	for i, path := range hostilePages() {
		b.open(path)
		if eval[bool](b, "window.hacked !== undefined") {
			t.Errorf("%s: the script ran", path)
		}
		if n := eval[int](b, `document.querySelectorAll("main img, main script, header img").length`); n > 0 {
			t.Errorf("%s: %d elements were put in", path, n)
		}
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
			t.Errorf("%s is %d wide on a phone of 360", path, wide)
		}
		b.screen(fmt.Sprintf("hostile-%02d", i))
	}
	b.size(1280, 900)
	b.open("jobs?state=dead")
	b.live()
	began := time.Now()
	b.until("a hostile list is kept up to date",
		`performance.getEntriesByType("resource").filter(e => e.name.includes("jobs?state=dead")).length > 1`)
	t.Log("brought up to date after", time.Since(began))
	if eval[bool](b, "window.hacked !== undefined") {
		t.Error("the script ran when the list was brought up to date")
	}
	b.click("input[name=job]")
	b.click("fieldset button[value=redrive]")
	b.sees("The job is redriven")
}
