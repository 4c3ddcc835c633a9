// Package browser gives tests a real browser: one Chromium for the tests of a package, with a profile
// for each test.
package browser

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/seed81422ce9/jobs/internal/testenv/servers"
)

var shared struct {
	once sync.Once
	ctx  context.Context
	err  error
}

// Root returns the context of the browser. The first call starts the browser, servers.Stop ends it.
// The test fails if it cannot be started.
func Root(t testing.TB) context.Context {
	t.Helper()
	shared.once.Do(start)
	if shared.err != nil {
		t.Fatalf("starting Chromium, which .ci/setup installs: %v", shared.err)
	}
	return shared.ctx
}

// Open opens a tab in a new profile. It closes with the test.
func Open(t testing.TB) context.Context {
	t.Helper()
	ctx, end := chromedp.NewContext(Root(t), chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	return ctx
}

func start() {
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		shared.err = err
		return
	}
	program, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		program = "chromium" // it draws its windows, even if nobody sees them, and takes twice the time
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("lang", "en-US"), chromedp.UserDataDir(dir), chromedp.WindowSize(1280, 900))...)
	ctx, end := chromedp.NewContext(allocator)
	shared.ctx = ctx
	servers.AtStop(func() {
		end()
		stop()
		_ = os.RemoveAll(dir)
	})
	shared.err = chromedp.Do(ctx)
}
