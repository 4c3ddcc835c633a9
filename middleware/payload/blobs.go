package payload

import (
	"context"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"
)

// Blobs is a store of large payloads: a directory (FileBlobs), or a few lines
// around the client of an object store. A key names a blob of one job and is put
// once; it has up to about 1600 bytes of letters, digits and the characters
// -_.~%+/. Methods are called by any number of goroutines and processes at once.
type Blobs interface {
	// Put stores data, so that Get sees all of it or no blob. Once it has returned
	// nil, the blob must be as durable as the jobs.
	Put(ctx context.Context, key string, data []byte) error
	// Get opens a blob, which the caller closes. The error is ErrNoBlob if there
	// is none. Every process must see a blob once Put has returned.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Delete removes a blob. It returns nil if there is none.
	Delete(ctx context.Context, key string) error
	// List yields the keys of blobs that were put at least age ago, by the
	// store's own clock, in any order. An error is yielded with an empty key and
	// ends the listing.
	List(ctx context.Context, age time.Duration) iter.Seq2[string, error]
}

// blobKey returns the key of a blob, from which CollectBlobs reads the job. The
// nonce distinguishes blobs of jobs with the same ID.
func blobKey(queue, id, nonce string) string {
	return url.QueryEscape(queue) + "/" + url.QueryEscape(id) + "/" + nonce
}

// ownerOf returns the job that a key names.
func ownerOf(key string) (queue, id string, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 || parts[2] == "" {
		return "", "", false
	}
	queue, err := url.QueryUnescape(parts[0])
	if err != nil || queue == "" {
		return "", "", false
	}
	id, err = url.QueryUnescape(parts[1])
	return queue, id, err == nil && id != ""
}
