package integration

import (
	"bytes"
	"sync"
	"testing"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

// proxy stands between a worker process and its store. It forwards everything
// except the first answer that contains its marker: it drops that answer and cuts
// the connection.
type proxy struct {
	url     string
	dropped chan struct{} // closed when the answer was dropped
}

func startProxy(t *testing.T, to, marker string) *proxy {
	t.Helper()
	p := &proxy{dropped: make(chan struct{})}
	var once sync.Once
	p.url = testenv.Proxy(t, to, func() func([]byte) (int, bool) {
		var sight []byte // the marker may be split between two parts, so the end of what was forwarded is searched again
		return func(answer []byte) (pass int, cut bool) {
			if sight = append(sight[max(0, len(sight)-1024):], answer...); bytes.Contains(sight, []byte(marker)) {
				once.Do(func() { cut = true; close(p.dropped) })
			}
			if cut {
				return 0, true
			}
			return len(answer), false
		}
	})
	return p
}
