package dashboard

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "make the pictures of the documentation anew")

// With -update this test makes the pictures of the documentation. Without, it checks
// that they exist in the right size.
func TestBrowserDocs_PicturesAreOfThePages(t *testing.T) {
	const wide, high = 1280, 1180
	s := newSite(t, Config{Title: "shop", Authorize: everything})
	s.pastWork(2 * time.Hour)
	for i := range 12 {
		s.enqueue("reports", string(rune('a'+i)), "report:monthly", delayed(time.Duration(i+1)*time.Hour))
	}
	for i := range 3 {
		s.enqueue("images", string(rune('a'+i)), "image:resize")
	}
	s.worker("01J9WORKERA", 10, "mail", "images")
	s.worker("01J9WORKERB", 4, "images", "reports")
	s.claim("01J9WORKERB", "images", 2)
	b := browse(t, s)
	b.size(wide, high)
	for name, one := range map[string]struct{ theme, path string }{
		"dashboard.png":       {"light", ""},
		"dashboard-queue.png": {"dark", "queue?name=mail"},
	} {
		b.prefers(one.theme)
		b.open(one.path)
		b.live()
		b.until("charts are drawn", `document.querySelectorAll(".chart canvas").length === 5`)
		b.sees("shop v1.4.2 since")
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("..", "docs", name)
		if *update {
			if err := os.WriteFile(file, picture, 0o644); err != nil {
				t.Error(err)
			}
			continue
		}
		kept, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		size := func(p []byte) [2]int {
			c, err := png.DecodeConfig(bytes.NewReader(p))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return [2]int{c.Width, c.Height}
		}
		if got, want := size(kept), size(picture); got != want || want != [2]int{wide, high} {
			t.Errorf("%s is of %v, and the page of %v; make it anew with go test ./dashboard -run BrowserDocs -update", name, got, want)
		}
	}
}
