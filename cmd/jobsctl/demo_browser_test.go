package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/seed81422ce9/jobs/dashboard"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/internal/testenv/browser"
)

// The controls work by mouse, the numbers update by themselves, and the page fits a
// phone in both themes.
func TestDemo_ThePageIsUsedInABrowser(t *testing.T) {
	d := controlledDemo(t)
	h, err := dashboard.New(inspect.New(d.Broker()), dashboard.Config{Title: "demo", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	s := httptest.NewServer(newDemoPage(d, h))
	defer s.Close()
	ctx := browser.Open(t)
	do := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := chromedp.Do(ctx, actions...); err != nil {
			t.Fatal(err)
		}
	}
	says := func(expression string) (v bool) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		v, _ = chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		return v
	}
	until := func(what, expression string) {
		t.Helper()
		testenv.Eventually(t, what, func() bool { return says(expression) }, func() string {
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
			return text
		})
	}
	do(chromedp.Navigate(s.URL+"/demo"), chromedp.WaitVisible(chromedp.CSS("#kill")))
	do(chromedp.SetValue(chromedp.CSS("#n"), "7"), chromedp.Click(chromedp.CSS("button[value=enqueue]")))
	until("seven jobs are enqueued, and wait", `document.getElementById("enqueued").textContent === "7" &&
		document.getElementById("waiting").textContent === "7"`)
	do(chromedp.SetValue(chromedp.CSS("#workers"), "2"), chromedp.SetValue(chromedp.CSS("#latency"), "0"),
		chromedp.Evaluate[chromedp.Void]("window.before = true; undefined"), chromedp.Click(chromedp.CSS("button[value=set]")))
	until("the page is loaded again", `!window.before && document.getElementById("kill") !== null`)
	do(chromedp.Evaluate[chromedp.Void]("window.same = true; undefined"))
	until("the jobs are done, on the page as it was", `window.same && document.getElementById("done").textContent === "7" &&
		document.getElementById("waiting").textContent === "0"`)
	do(chromedp.Click(chromedp.CSS("button[value=kill]")))
	until("the kill is in the table", `document.querySelectorAll("#history tbody th").length === 1`)
	for _, theme := range []string{"light", "dark"} {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, wide := range []int64{375, 1280} {
			do(chromedp.EmulateViewport(wide, 800))
			if !says(fmt.Sprintf("document.documentElement.scrollWidth <= %d", wide)) {
				t.Errorf("the page is wider than %d", wide)
			}
			if !says(`[...document.querySelectorAll(".scroll")].every(e => e.scrollWidth <= e.clientWidth)`) {
				t.Errorf("a table scrolls sideways at %d", wide)
			}
			if dir := os.Getenv("JOBS_SCREENSHOTS"); dir != "" {
				picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("demo-%d-%s.png", wide, theme)), picture, 0o644)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
	}
}
