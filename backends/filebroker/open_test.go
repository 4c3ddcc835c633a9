package filebroker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// written returns the path of a closed file with some jobs, and its bytes.
func written(t *testing.T) (path string, content []byte) {
	t.Helper()
	path = newFile(t)
	b := openTest(t, path)
	if err := errors.Join(register(b, "w"), enqueue(t.Context(), b, writtenIDs()...)); err != nil {
		t.Fatal(err)
	}
	got, err := claim(b, "w", 100)
	if err := errors.Join(err, complete(b, "w", 1, got.Jobs[:50]), b.Close()); err != nil {
		t.Fatal(err)
	}
	content, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

func writtenIDs() (ids []string) {
	for i := range 300 {
		ids = append(ids, fmt.Sprint("job", i))
	}
	return ids
}

func overwrite(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// malformed requires that a file is refused as damaged, with its name and the damage.
func malformed(t *testing.T, path, how, wrong string) {
	t.Helper()
	b, err := Open(path)
	if err == nil {
		b.Close()
	}
	if !errors.Is(err, broker.ErrMalformed) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), wrong) {
		t.Errorf("a file that %s: Open answers %v; want ErrMalformed with the file's name and %q", how, err, wrong)
	}
}

func TestOpen_AFileThatIsCutOffOrOfSomethingElseIsMalformed(t *testing.T) {
	t.Parallel()
	path, content := written(t)
	page := os.Getpagesize()
	const usedAt = 56 // in a meta page of bbolt: the number of pages
	used := page * int(max(binary.NativeEndian.Uint64(content[usedAt:]), binary.NativeEndian.Uint64(content[page+usedAt:])))
	for size, wrong := range map[int]string{1: "", 100: "", page: "", 3 * page: "", used / 3: "", used - 1: "its end is missing"} {
		overwrite(t, path, content[:size])
		malformed(t, path, fmt.Sprintf("ends after %d of %d bytes", size, used), wrong)
	}
	overwrite(t, path, bytes.Repeat([]byte("something else\n"), 10_000))
	malformed(t, path, "is a text", "")
	overwrite(t, path, make([]byte, len(content)))
	malformed(t, path, "is all zeros", "")

	other := newFile(t)
	db, err := bolt.Open(other, 0o600, nil)
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error {
			_, err := tx.CreateBucket([]byte("of another program"))
			return err
		})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	malformed(t, other, "another program made", "another program")

	overwrite(t, path, content)
	b := openTest(t, path)
	consistent(t, b)
	if got := found(t, b, "job0", "job299"); got["job0"] != broker.StateCompleted || got["job299"] != broker.StatePending {
		t.Errorf("the file as it was has the jobs %v", got)
	}
}

// A byte that changed on the disk is found when the file is opened, wherever it matters.
// The first two pages, the meta pages, are left out: if the newer one cannot be read, as
// after a power cut, bbolt uses the older one.
func TestOpen_AChangedByteIsFoundOrHarmless(t *testing.T) {
	t.Parallel()
	path, content := written(t)
	refused, ids := 0, writtenIDs()
	for at := 2 * os.Getpagesize(); at < len(content); at += 1201 {
		changed := bytes.Clone(content)
		changed[at] ^= 0x55
		overwrite(t, path, changed)
		b, err := Open(path)
		if err != nil {
			if refused++; !errors.Is(err, broker.ErrMalformed) && !errors.Is(err, broker.ErrNewerForm) {
				t.Errorf("byte %d is another: Open answers %v; want ErrMalformed", at, err)
			}
			continue
		}
		consistent(t, b)
		if n := len(found(t, b, ids...)); n != len(ids) {
			t.Errorf("byte %d is another: the file opens, and has %d of %d jobs", at, n, len(ids))
		}
		info, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}})
		if err := errors.Join(err, b.Close()); err != nil {
			t.Fatal(err)
		}
		if n := info.Queues[0].Counts; n[broker.StateCompleted] != 50 || n[broker.StateActive] != 50 || n[broker.StatePending] != 200 {
			t.Errorf("byte %d is another: the file opens, and has %v", at, n)
		}
	}
	if refused < 8 {
		t.Errorf("%d files were refused; the test changes nothing that matters", refused)
	}
}

// The next transaction would overwrite a page in use that counts as free.
func TestOpen_APageThatIsInUseAndFreeIsMalformed(t *testing.T) {
	t.Parallel()
	path, content := written(t)
	number := func(at int) int { return int(binary.NativeEndian.Uint64(content[at:])) }
	const header, rootAt, freeAt, txAt = 16, 32, 48, 64 // in a meta page of bbolt
	page := os.Getpagesize()
	meta := 0
	if number(page+txAt) > number(txAt) {
		meta = page
	}
	free := number(meta+freeAt) * page
	binary.NativeEndian.PutUint16(content[free+10:], 1) // the number of free pages
	copy(content[free+header:], content[meta+rootAt:][:8])
	overwrite(t, path, content)
	malformed(t, path, "counts its root page as free", "reachable freed")
}

// bbolt's own check would end the process.
func TestOpen_AnInnerPageWhoseKeysAreElsewhereIsMalformed(t *testing.T) {
	t.Parallel()
	path, content := written(t)
	const flagsAt, isInner, secondAt = 8, 1, 16 + 16 // in a page of bbolt
	inner, page := 0, os.Getpagesize()
	for at := 2 * page; at < len(content); at += page {
		if binary.NativeEndian.Uint16(content[at+flagsAt:]) == isInner {
			binary.NativeEndian.PutUint32(content[at+secondAt:], 1<<30) // where the key is, from here
			inner++
		}
	}
	if inner == 0 {
		t.Fatal("the file has no inner page: too few jobs")
	}
	overwrite(t, path, content)
	malformed(t, path, "has inner pages whose keys are elsewhere", "")
}

func TestOpen_AFileOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	path, _ := written(t)
	db, err := bolt.Open(path, 0o600, nil)
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error { return tx.Bucket(layoutPart).Put(layoutKey, []byte("2")) })
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, broker.ErrNewerForm) {
		t.Errorf("Open answers %v; want ErrNewerForm", err)
	}
}

func TestOpen_AFileThatCannotBeMadeAnswersTheErrorOfTheFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "missing", "jobs.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v; want os.ErrNotExist", err)
	}
	var of *os.PathError
	if _, err := Open(dir); !errors.As(err, &of) {
		t.Errorf("a directory: %v; want the error of opening it", err)
	}
}

func TestOpen_HandlesOfAProcessShareTheFileAndTheLastOneClosesIt(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	a := openTest(t, path)
	b := openTest(t, filepath.Join(filepath.Dir(path), ".", filepath.Base(path)))
	if err := enqueue(t.Context(), a, "1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Errorf("closing a handle: %v", err)
		}
	}
	if _, err := a.Ping(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("a closed handle answers %v", err)
	}
	if got := found(t, b, "1"); got["1"] != broker.StatePending {
		t.Errorf("the other handle finds %v", got)
	}
	if err := b.Close(); err != nil {
		t.Errorf("closing the last handle: %v", err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 1})
	if err != nil {
		t.Fatalf("after the last handle was closed the file is not free: %v", err)
	}
	db.Close()
}

// Changes made directly in memory would not reach the disk.
func TestBroker_HidesTheMemory(t *testing.T) {
	t.Parallel()
	b := openTest(t, newFile(t))
	if _, ok := broker.As[*membroker.Broker](b); ok {
		t.Error("broker.As finds the memory inside")
	}
	if got, ok := broker.As[*Broker](broker.Wrap(b, nil)); !ok || got != b {
		t.Error("broker.As does not find the broker inside a wrapper")
	}
}

func TestBroker_ABackupIsAFileAsOfThen(t *testing.T) {
	t.Parallel()
	b := openTest(t, newFile(t))
	if err := enqueue(t.Context(), b, "1"); err != nil {
		t.Fatal(err)
	}
	path := newFile(t)
	to, err := os.Create(path)
	if err == nil {
		err = errors.Join(b.Backup(t.Context(), to), to.Close(), enqueue(t.Context(), b, "2"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := found(t, openTest(t, path), "1", "2"); len(got) != 1 || got["1"] != broker.StatePending {
		t.Errorf("the backup has the jobs %v, want 1", got)
	}
	b.Close()
	if err := b.Backup(t.Context(), to); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("a closed handle answers %v", err)
	}
}

func TestBroker_ABackupThatComesTooLateAnswersThatItIsClosed(t *testing.T) {
	t.Parallel()
	b := openTest(t, newFile(t))
	if err := b.file.db.Close(); err != nil { // as Close does while Backup begins
		t.Fatal(err)
	}
	if err := b.Backup(t.Context(), new(bytes.Buffer)); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("a backup of a file that was just closed: %v, want ErrClosed", err)
	}
}

// A backup whose reader hangs neither holds up Close nor other files. The file is closed after it.
func TestBroker_ABackupDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	b := openTest(t, path)
	if err := enqueue(t.Context(), b, "1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from, to := io.Pipe()
	backup := make(chan error, 1)
	go func() { backup <- b.Backup(ctx, to) }()
	if _, err := from.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 2)
	go func() { answers <- b.Close() }()
	other := newFile(t)
	go func() {
		b, err := Open(other)
		if err == nil {
			err = b.Close()
		}
		answers <- err
	}()
	for _, want := range []error{nil, context.DeadlineExceeded} {
		select {
		case err := <-answers:
			if !errors.Is(err, want) {
				t.Errorf("answered %v, want %v: first that of the other file, and then that of the file under the backup", err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a call waits for the backup")
		}
	}
	if _, err := Open(path); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("opening the file that is still being closed: %v, want ErrUnavailable", err)
	}

	cancel()
	go func() { _, _ = io.Copy(io.Discard, from) }()
	if err := <-backup; !errors.Is(err, context.Canceled) {
		t.Errorf("the backup answers %v, want the error of its context", err)
	}
	_ = to.Close()
	if got := found(t, openTest(t, path), "1"); len(got) != 1 {
		t.Errorf("opened again, the file has %v", got)
	}
}

func TestOpen_RefusesAnEmptyPathByName(t *testing.T) {
	t.Parallel()
	if _, err := Open(""); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "path: invalid: is empty") {
		t.Errorf("answered %v", err)
	}
}
