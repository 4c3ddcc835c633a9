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
// -_.~%+/, in three parts separated by slashes, none of which is . or .. (Get is
// called with no other key, whatever a stored job names). Methods are called by any
// number of goroutines and processes at once.
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
	return keyPart(queue) + "/" + keyPart(id) + "/" + nonce
}

// keyPart escapes a name. In a path, . and .. are no names.
func keyPart(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.QueryEscape(name)
}

// isBlobKey reports whether blobKey made a key.
func isBlobKey(key string) bool {
	queue, id, ok := ownerOf(key)
	nonce := key[strings.LastIndexByte(key, '/')+1:]
	other := func(r rune) bool { return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') }
	return ok && key == blobKey(queue, id, nonce) && len(nonce) <= maxNonce && !strings.ContainsFunc(nonce, other)
}

const maxNonce = 64 // more than rand.Text returns

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
