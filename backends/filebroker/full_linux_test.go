package filebroker

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

const childFull = "FILEBROKER_TEST_FULL"

// A child process cannot write more than a page to a file. It is this test's program, run again.
func TestChild_MakesAFileThatHasNoRoom(t *testing.T) {
	path := os.Getenv(childFull)
	if path == "" {
		return // it is not the child
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := uint64(os.Getpagesize())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	b, err := Open(path)
	if err == nil {
		b.Close()
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("opening a new file without room answers %v, want the error of the file system", err)
	}
}

// The disk may be full when a file is made. What there was room for is no file of jobs, and must not be in the way later.
func TestOpen_AFileThatCouldNotBeMadeIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	c := exec.Command(os.Args[0], "-test.run", "^TestChild_MakesAFileThatHasNoRoom$")
	c.Env = append(os.Environ(), childFull+"="+path)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := enqueue(t.Context(), openTest(t, path), "1"); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}
