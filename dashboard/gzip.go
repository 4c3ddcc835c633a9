package dashboard

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// zipped compresses an answer with gzip, which the standard library has; brotli would
// need a library, for some tenths less of pages that are small already. Events are not
// compressed, since each is to arrive at once; nor are payloads: from the size of an
// answer in which a secret and a text of somebody else's stand together, who sees the
// wire could guess the secret.
type zipped struct {
	http.ResponseWriter
	begun bool
	to    *gzip.Writer // nil while nothing, or as it is
}

var zippers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed) // made for each request
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// acceptsGzip reports whether a request takes an answer in gzip.
func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(quality), "q="), 64)
		if strings.TrimSpace(name) == "gzip" && (err != nil || q > 0) {
			return true
		}
	}
	return false
}

// maySqueeze reports whether the answer to a request may be compressed.
func maySqueeze(r *http.Request, page string) bool {
	return r.Method == http.MethodGet && acceptsGzip(r) && r.Header.Get("Range") == "" &&
		page != "events" && page != "payload" && !r.URL.Query().Has("show")
}

func (z *zipped) WriteHeader(status int) {
	if !z.begun {
		z.begin(status)
	}
	z.ResponseWriter.WriteHeader(status)
}

// begin decides, once the header is known.
func (z *zipped) begin(status int) {
	z.begun = true
	h := z.Header()
	kind := h.Get("Content-Type")
	text := strings.HasPrefix(kind, "text/") || strings.HasPrefix(kind, "application/json") || strings.HasPrefix(kind, "image/svg")
	if !text || status == http.StatusNoContent || status == http.StatusNotModified || h.Get("Content-Encoding") != "" {
		return
	}
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	h.Del("Content-Length")
	z.to = zippers.Get().(*gzip.Writer)
	z.to.Reset(z.ResponseWriter)
}

func (z *zipped) Write(p []byte) (int, error) {
	if !z.begun {
		z.WriteHeader(http.StatusOK)
	}
	if z.to == nil {
		return z.ResponseWriter.Write(p)
	}
	return z.to.Write(p)
}

// Unwrap lets the answer be controlled.
func (z *zipped) Unwrap() http.ResponseWriter { return z.ResponseWriter }

func (z *zipped) end() {
	if z.to != nil {
		_ = z.to.Close() // it fails only when nobody listens any more
		zippers.Put(z.to)
		z.to = nil
	}
}
