package membroker

import (
	"bytes"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestHeadersLieBehindThePayload(t *testing.T) {
	t.Parallel()
	for _, headers := range []map[string]string{
		nil, {"k": "v"}, {"k": "", "\xff\x00": "\x00"}, {"a": strings.Repeat("x", 60_000), "b": "y"},
	} {
		for _, payload := range []string{"", "payload"} {
			var a arena
			packed := a.pack([]byte(payload), headers)
			if string(packed) != payload {
				t.Errorf("the payload %q became %q", payload, packed)
			}
			var text strings.Builder
			text.WriteString("of another job")
			if got := unpack(packedHeaders(packed), &text); !maps.Equal(got, headers) {
				t.Errorf("the headers %q became %q", headers, got)
			}
		}
	}
}

// Jobs that carry a trace have headers of their own: what else they have is
// shared with other jobs. Not parallel: it measures the memory of the process.
func TestJobsWithHeadersAreSmallToo(t *testing.T) {
	const batch, depth = 1000, 50_000
	b := New()
	defer b.Close()
	held := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := held()
	for n := 0; n < depth; n += batch {
		news := make([]broker.NewJob, batch)
		for i := range news {
			news[i] = newTestJob("q", strconv.Itoa(n+i))
			news[i].Body.Payload = bytes.Repeat([]byte{1}, 200)
			news[i].Body.Headers = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-" + strconv.Itoa(1_000_000_000_000_000+n+i) + "-01"}
		}
		enqueue(t, b, news...)
	}
	if each := (held() - before) / depth; each > 600 {
		t.Errorf("a pending job with a payload of 200 bytes and a trace occupies %d bytes", each)
	} else {
		t.Logf("a pending job with a payload of 200 bytes and a trace occupies %d bytes", each)
	}
	runtime.KeepAlive(b)
}
