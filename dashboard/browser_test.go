package dashboard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/internal/testenv/browser"
	"github.com/seed81422ce9/jobs/internal/testenv/servers"
)

// tab is a page in a real browser. Script errors and violations of the content policy
// fail the test.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	problems []string
	cuts     bool // htmx may log requests that fail
}

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Stop()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines left over after all tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// browse opens a tab in a new profile.
func browse(t *testing.T, s *site) *tab {
	t.Helper()
	return newTab(t, s, browser.Open(t))
}

func newTab(t *testing.T, s *site, ctx context.Context) *tab {
	t.Helper()
	b := &tab{t: t, ctx: ctx, url: s.url}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.complain(fmt.Sprintf("%+v", e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError {
				b.complain(fmt.Sprintf("console: %s", e.Args[0].Value))
			}
		}
	})
	if err == nil {
		_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchPolicy})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.problems) > 0 {
			t.Errorf("the browser complains:\n%s", strings.Join(b.problems, "\n"))
		}
	})
	return b
}

// watchPolicy makes a page log violations of the content policy.
const watchPolicy = `addEventListener("securitypolicyviolation", e =>
	console.error("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber))`

func (b *tab) complain(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cuts && strings.Contains(problem, `"htmx:`) {
		return
	}
	b.problems = append(b.problems, problem)
}

// expectCuts says that requests will fail from now on, which htmx logs.
func (b *tab) expectCuts() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cuts = true
}

// do runs actions, within 20 seconds.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, hung)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.where())
	}
}

// where describes what the page shows.
func (b *tab) where() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	return fmt.Sprintf("%.3000s", text)
}

// open goes to a page of the site.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url+path), chromedp.WaitVisible(chromedp.CSS("#main")))
}

// hung is how long a test waits for a browser: slow machines need seconds, and nothing
// needs longer.
const hung = time.Minute

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, hung)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", expression, err, b.where())
	}
	return v
}

// until waits until an expression is true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	testenv.Eventually(b.t, what, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		defer cancel()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		return err == nil && is
	}, b.where)
}

// sees waits for a text on the page.
func (b *tab) sees(text string) {
	b.t.Helper()
	b.until("the page says "+text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// screen saves a picture of the page in the directory JOBS_SCREENSHOTS, if that is set.
func (b *tab) screen(name string) {
	b.t.Helper()
	dir := os.Getenv("JOBS_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Error(err)
	}
}

// prefers sets the theme that the system prefers.
func (b *tab) prefers(theme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) size(wide, high int64) { b.do(chromedp.EmulateViewport(wide, high)) }

// click clicks the first element that a selector finds. The page may replace the
// element between the two: then it looks again.
func (b *tab) click(selector string) {
	b.t.Helper()
	for end := time.Now().Add(hung); ; {
		ctx, cancel := context.WithTimeout(b.ctx, hung)
		err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector)))
		cancel()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "No node with given id") || time.Now().After(end) {
			b.t.Fatalf("clicking %s: %v\n%s", selector, err, b.where())
		}
	}
}

// fill types a text into a field.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), text))
}

// press types keys, as on a keyboard.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// live waits until the page refreshes itself.
func (b *tab) live() {
	b.t.Helper()
	b.until("it is live", `document.getElementById("link-text").textContent.startsWith("Live")`)
}
