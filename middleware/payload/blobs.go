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
// around the client of an object store. Keys are up to about 1600 bytes of
// letters, digits and the characters -_.~%+/ and name a blob of one job; a
// key is put once. Methods are called from any number of goroutines and
// processes at once.
type Blobs interface {
	// Put stores data, all of it or nothing that Get can see. When it returns
	// nil, the blob outlives a crash as surely as the jobs do.
	Put(ctx context.Context, key string, data []byte) error
	// Get opens a blob, which the caller closes. The error is ErrNoBlob when
	// there is none. A blob must be there for everybody once Put has returned.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Delete removes a blob. That there is none is no error.
	Delete(ctx context.Context, key string) error
	// List shows the keys of blobs that were put at least age ago, by the
	// store's own clock, in any order. An error comes with an empty key and
	// ends the listing.
	List(ctx context.Context, age time.Duration) iter.Seq2[string, error]
}

// blobKey names a blob of a job so that the collection of orphans can tell
// whose it is. Nonce tells blobs of jobs with the same ID apart.
func blobKey(queue, id, nonce string) string {
	return url.QueryEscape(queue) + "/" + url.QueryEscape(id) + "/" + nonce
}

// ownerOf is the job that a key names.
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
