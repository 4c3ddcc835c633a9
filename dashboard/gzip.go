package dashboard

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// zipped compresses a response with gzip, which the standard library has. Brotli would need a
// dependency, and would make small pages only a little smaller. Events are not compressed, because each
// must arrive at once. Nor are payloads: if a response contains both a secret and an attacker's text,
// its compressed size helps an eavesdropper to guess the secret.
type zipped struct {
	http.ResponseWriter
	begun bool
	to    *gzip.Writer // nil if nothing was written yet, or without compression
}

var zippers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed) // created for requests
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

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

// maySqueeze reports whether the response to a request may be compressed.
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

// begin decides whether to compress, once the header is known.
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

// Unwrap lets http.ResponseController reach the response.
func (z *zipped) Unwrap() http.ResponseWriter { return z.ResponseWriter }

func (z *zipped) end() {
	if z.to != nil {
		_ = z.to.Close() // it fails only if the client is gone
		zippers.Put(z.to)
		z.to = nil
	}
}
