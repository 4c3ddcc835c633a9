package payload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func openFileBlobs(t testing.TB) *FileBlobs {
	t.Helper()
	blobs, err := OpenFileBlobs(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	return blobs
}

// listed returns the keys that List yields for an age.
func listed(t testing.TB, blobs Blobs, age time.Duration) []string {
	t.Helper()
	var keys []string
	for key, err := range blobs.List(t.Context(), age) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// brokenBlobs is a store that fails.
type brokenBlobs struct{ err error }

func (b brokenBlobs) Put(context.Context, string, []byte) error { return b.err }
func (b brokenBlobs) Get(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(brokenReader(b)), nil
}
func (b brokenBlobs) Delete(context.Context, string) error { return b.err }
func (b brokenBlobs) List(context.Context, time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", b.err) }
}

type brokenReader brokenBlobs

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

func TestClaimcheck_OnlyLargePayloadsLeaveTheQueue(t *testing.T) {
	t.Parallel()
	blobs := openFileBlobs(t)
	codec := ClaimCheck(ClaimCheckConfig{Blobs: blobs, MinSize: 10})
	if job := encoded(t, codec, []byte("9 bytes .")); string(job.Payload) != "9 bytes ." || job.PayloadRef != "" {
		t.Errorf("a small payload is %q at %q, want it in the job", job.Payload, job.PayloadRef)
	}
	job := encoded(t, codec, []byte("ten bytes."))
	if len(job.Payload) > 0 || !strings.HasPrefix(job.PayloadRef, "q/1/") {
		t.Errorf("a large payload is %q at %q, want it in a blob of job 1 in q", job.Payload, job.PayloadRef)
	}
	if keys := listed(t, blobs, 0); len(keys) != 1 || keys[0] != job.PayloadRef {
		t.Errorf("the store has %v, want %s", keys, job.PayloadRef)
	}
}

func TestClaimcheck_AReferenceOfTheProducerStays(t *testing.T) {
	t.Parallel()
	codec := ClaimCheck(ClaimCheckConfig{Blobs: openFileBlobs(t), MinSize: 1})
	job := broker.NewJob{Queue: "q", ID: "1", Body: broker.Body{Type: "report", Payload: []byte("payload"), PayloadRef: "s3://bucket/key"}}
	if err := codec.EncodePayload(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	got, err := decode(codec, &broker.Job{Queue: job.Queue, ID: job.ID, Body: job.Body})
	if err != nil || string(got) != "payload" || job.Body.PayloadRef != "s3://bucket/key" {
		t.Errorf("the reference became %q, the payload %q, %v", job.Body.PayloadRef, got, err)
	}
}

func TestClaimcheck_ABlobThatIsNotTheOneThatWasPutIsDead(t *testing.T) {
	t.Parallel()
	blobs := openFileBlobs(t)
	codec := ClaimCheck(ClaimCheckConfig{Blobs: blobs, MinSize: 1, MaxSize: 100})
	for _, other := range []string{"", "ten bytes", "ten bytes!", "ten bytes.."} {
		job := encoded(t, codec, []byte("ten bytes."))
		if err := blobs.Put(t.Context(), job.PayloadRef, []byte(other)); err != nil {
			t.Fatal(err)
		}
		_, err := decode(codec, job)
		wantDead(t, err, ErrTampered)
	}
	for header, want := range map[string]error{
		"":                                      ErrTampered,
		"nonsense":                              ErrTampered,
		"-1 sha256:" + strings.Repeat("0", 64):  ErrTampered,
		"10 sha256:00":                          ErrTampered,
		"101 sha256:" + strings.Repeat("0", 64): jobs.ErrTooLarge,
	} {
		_, err := decode(codec, &broker.Job{Body: broker.Body{PayloadRef: "q/1/x", Headers: map[string]string{claimHeader: header}}})
		wantDead(t, err, want)
	}
}

func TestClaimcheck_AMissingBlobIsRetried(t *testing.T) {
	t.Parallel()
	blobs := openFileBlobs(t)
	codec := ClaimCheck(ClaimCheckConfig{Blobs: blobs, MinSize: 1})
	job := encoded(t, codec, []byte("payload"))
	if err := blobs.Delete(t.Context(), job.PayloadRef); err != nil {
		t.Fatal(err)
	}
	_, err := decode(codec, job)
	if !errors.Is(err, ErrNoBlob) || errors.Is(err, jobs.SkipRetry) {
		t.Errorf("the error is %v, want ErrNoBlob without SkipRetry", err)
	}
	if record := outcomeOf(t, err); record.State != jobs.StateRetry || record.Failures != 1 {
		t.Errorf("the job is %v with %d failures, want a retry by policy", record.State, record.Failures)
	}
}

func TestClaimcheck_AStoreOfBlobsThatFailsFailsTheCall(t *testing.T) {
	t.Parallel()
	down := errors.New("503")
	codec := ClaimCheck(ClaimCheckConfig{Blobs: brokenBlobs{down}, MinSize: 1})
	job := broker.NewJob{Queue: "q", ID: "1", Body: broker.Body{Payload: []byte("payload")}}
	if err := codec.EncodePayload(t.Context(), &job); !errors.Is(err, down) || string(job.Body.Payload) != "payload" ||
		job.Body.PayloadRef != "" {
		t.Errorf("error %v, payload %q at %q; want the store's error and the job as it was", err, job.Body.Payload, job.Body.PayloadRef)
	}
	_, err := decode(codec, &broker.Job{Body: broker.Body{PayloadRef: "q/1/x",
		Headers: map[string]string{claimHeader: claimOf([]byte("payload")).String()}}})
	if !errors.Is(err, down) || errors.Is(err, jobs.SkipRetry) {
		t.Errorf("the error is %v, want the store's without SkipRetry", err)
	}
	if err := codec.EncodePayload(t.Context(), &broker.NewJob{Body: broker.Body{Payload: make([]byte, 16<<20+1)}}); !errors.Is(err,
		jobs.ErrTooLarge) {
		t.Errorf("a payload over the limit was answered %v, want ErrTooLarge", err)
	}
}

func FuzzClaim(f *testing.F) {
	f.Add(claimOf([]byte("payload")).String())
	f.Add("0 sha256:")
	f.Fuzz(func(t *testing.T, s string) {
		if c, ok := parseClaim(s); ok {
			if again, ok := parseClaim(c.String()); !ok || again != c || c.size < 0 {
				t.Errorf("%q is %v and then %v", s, c, again)
			}
		}
		if c := claimOf([]byte(s)); true {
			if got, ok := parseClaim(c.String()); !ok || got != c {
				t.Errorf("%v came back as %v", c, got)
			}
		}
	})
}

func TestClaimcheck_ABlobIsThereAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blobs, err := OpenFileBlobs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	if err := blobs.Put(t.Context(), "q/1/a", []byte("whole")); err != nil {
		t.Fatal(err)
	}
	// Temporary files of writers: one that may still be writing, and one that died long ago.
	for name, age := range map[string]time.Duration{"young": time.Minute, "old": blobTempAge} {
		half := filepath.Join(dir, blobTemp, name)
		if err := os.WriteFile(half, []byte("ha"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(half, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if keys := listed(t, blobs, 0); !slices.Equal(keys, []string{"q/1/a"}) {
		t.Errorf("the store shows %q, want the whole blob alone", keys)
	}
	again, err := OpenFileBlobs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	left, err := os.ReadDir(filepath.Join(dir, blobTemp))
	if err != nil || len(left) != 1 || left[0].Name() != "young" {
		t.Errorf("after opening again %v is left half written (error %v), want the young one", left, err)
	}
}

func TestClaimcheck_AFailedPutLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blobs, err := OpenFileBlobs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	// A directory has the path of the blob.
	if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(blobPath("q/1/a")), "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := blobs.Put(t.Context(), "q/1/a", []byte("data")); err == nil {
		t.Error("a blob was put where a directory is")
	}
	if left, err := os.ReadDir(filepath.Join(dir, blobTemp)); err != nil || len(left) != 0 {
		t.Errorf("%v is left half written (error %v)", left, err)
	}
}

func TestClaimcheck_NoKeyLeadsOutOfTheDirectory(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret"+blobSuffix)
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(outside, "blobs")
	blobs, err := OpenFileBlobs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	for _, key := range []string{"../secret", "../../secret", "..", ".", "", "/", secret, "a/../../secret", "..\\secret", "a\x00b", "\xff",
		strings.Repeat("../", 500)} {
		if blob, err := blobs.Get(t.Context(), key); err == nil {
			got, _ := io.ReadAll(blob)
			blob.Close()
			t.Errorf("key %.20q opens %q", key, got)
		}
		if err := blobs.Put(t.Context(), key, []byte("mine")); err != nil {
			t.Errorf("key %.20q cannot be put: %v", key, err)
		}
		blob, err := blobs.Get(t.Context(), key)
		if err != nil {
			t.Errorf("key %.20q cannot be got: %v", key, err)
			continue
		}
		got, _ := io.ReadAll(blob)
		blob.Close()
		if string(got) != "mine" || !slices.Contains(listed(t, blobs, 0), key) {
			t.Errorf("key %.20q holds %q, and the list is %.100q", key, got, listed(t, blobs, 0))
		}
		if err := blobs.Delete(t.Context(), key); err != nil {
			t.Errorf("key %.20q cannot be deleted: %v", key, err)
		}
		if err := blobs.Delete(t.Context(), key); err != nil {
			t.Errorf("deleting key %.20q again: %v, want no error", key, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 2 {
		t.Errorf("the directory outside holds %v (error %v), want the secret and the store", entries, err)
	}

	// A symbolic link does not lead out of the directory either.
	place := filepath.Join(dir, filepath.FromSlash(blobPath("q/1/a")))
	if err := os.Symlink(secret, place); err != nil {
		t.Fatal(err)
	}
	if blob, err := blobs.Get(t.Context(), "q/1/a"); err == nil {
		blob.Close()
		t.Error("a link led out of the directory")
	}
	if keys := listed(t, blobs, 0); len(keys) != 0 {
		t.Errorf("a link is listed as %q", keys)
	}
}

func TestClaimcheck_BlobsAreListedByAge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blobs, err := OpenFileBlobs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	for _, key := range []string{"q/1/new", "q/2/old"} {
		if err := blobs.Put(t.Context(), key, bytes.Repeat([]byte("x"), 100)); err != nil {
			t.Fatal(err)
		}
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, filepath.FromSlash(blobPath("q/2/old"))), hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	if keys := listed(t, blobs, time.Hour); !slices.Equal(keys, []string{"q/2/old"}) {
		t.Errorf("of an hour's age are %q, want the old one", keys)
	}
	if keys := listed(t, blobs, 0); len(keys) != 2 {
		t.Errorf("of any age are %q, want both", keys)
	}
}

func FuzzBlobPath(f *testing.F) {
	f.Add("q/1/a")
	f.Add("../..")
	f.Add(strings.Repeat("é", 300))
	f.Fuzz(func(t *testing.T, key string) {
		place := blobPath(key)
		if !filepath.IsLocal(place) || strings.Contains(place, "//") {
			t.Errorf("%q leads to %q", key, place)
		}
		for part := range strings.SplitSeq(place, "/") {
			if len(part) > 255 || part == "." || part == ".." || part == blobTemp {
				t.Errorf("%q leads over %q", key, part)
			}
		}
		if again, ok := keyOfBlob(place); !ok || again != key {
			t.Errorf("%q came back as %q", key, again)
		}
		if got, ok := keyOfBlob(key); ok && blobPath(got) != key {
			t.Errorf("the path %q is taken for the blob %q, which is at %q", key, got, blobPath(got))
		}
		if queue, id, ok := ownerOf(blobKey(key, "id/"+key, "x")); key != "" && (!ok || queue != key || id != "id/"+key) {
			t.Errorf("the blob of a job in %q is taken for one of %q in %q", key, id, queue)
		}
	})
}

func TestOpenFileBlobs_RefusesAnEmptyPathByName(t *testing.T) {
	t.Parallel()
	if _, err := OpenFileBlobs(""); err == nil || !strings.Contains(err.Error(), "the directory is empty") {
		t.Errorf("answered %v", err)
	}
}

// seenBlobs records the keys that it is asked for.
type seenBlobs struct {
	brokenBlobs
	keys []string
}

func (s *seenBlobs) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	s.keys = append(s.keys, key)
	return s.brokenBlobs.Get(ctx, key)
}

// A store of blobs may make paths or URLs of keys, so it gets no key that ClaimCheck did not make.
func TestClaimcheck_AReferenceThatIsNoKeyReachesNoStore(t *testing.T) {
	t.Parallel()
	blobs := &seenBlobs{brokenBlobs: brokenBlobs{ErrNoBlob}}
	codec := ClaimCheck(ClaimCheckConfig{Blobs: blobs, MinSize: 1})
	header := map[string]string{claimHeader: claimOf([]byte("payload")).String()}
	for _, ref := range []string{"", "q", "q/1", "q/1/", "/1/x", "../../x", "q/../x", "./1/x", "q/1/..", "q/1/.x", "q/1/x/y", "/etc/passwd",
		"https://169.254.169.254/latest", "q/1/x?versions", "q/1/x%2fy", "q/a b/x", "q/1/x\n", "%71/1/x", "q/1/" + strings.Repeat("x", 65)} {
		_, err := decode(codec, &broker.Job{Body: broker.Body{PayloadRef: ref, Headers: header}})
		wantDead(t, err, ErrTampered)
	}
	if len(blobs.keys) > 0 {
		t.Errorf("the store was asked for %q", blobs.keys)
	}
	for _, name := range []string{"..", ".", "...", ".hidden", "a/b", "%2E", "é +%", "-_~"} {
		key := blobKey(name, name, "NONCE234")
		parts := strings.Split(key, "/")
		if queue, id, ok := ownerOf(key); !ok || queue != name || id != name || slices.Contains(parts, ".") || slices.Contains(parts, "..") {
			t.Errorf("the key of a blob of the job %q in the queue %q is %q, which reads as %q in %q, %v", name, name, key, id, queue, ok)
		}
		_, err := decode(codec, &broker.Job{Body: broker.Body{PayloadRef: key, Headers: header}})
		if !errors.Is(err, ErrNoBlob) {
			t.Errorf("the key %q is answered %v, want the store's error", key, err)
		}
	}
}
