package payload

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
)

// A long key has directories of its own.
func TestFileBlobs_ADeletedBlobLeavesNoDirectory(t *testing.T) {
	t.Parallel()
	blobs := openFileBlobs(t)
	directories := func() (n int) {
		err := fs.WalkDir(blobs.root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				n++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := directories()
	var all sync.WaitGroup
	for i, n := 0, 0; n < 8; i++ {
		key := blobKey("q", strings.Repeat("x", 250), fmt.Sprint(i))
		if !strings.HasPrefix(blobPath(key), "00/") {
			continue // it shares no directory with the others
		}
		n++
		all.Go(func() {
			for range 5 {
				if err := blobs.Put(t.Context(), key, []byte("payload")); err != nil {
					t.Error(err)
				}
				if err := blobs.Delete(t.Context(), key); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if after := directories(); after != before {
		t.Errorf("%d directories became %d", before, after)
	}
}
