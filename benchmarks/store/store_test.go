package store

import (
	"net"
	"os"
	"strings"
	"testing"
)

func TestStore_ABusyPortIsRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for name, start := range starts {
		if s, err := start(t.Context(), t.TempDir(), port); err == nil {
			s.Stop()
			t.Errorf("%s started on a port that is taken", name)
		} else if !strings.Contains(err.Error(), "busy") {
			t.Errorf("%s: the error %q does not say that the port is busy", name, err)
		}
	}
}

func TestStore_AMissingProgramIsNamedWithItsPackage(t *testing.T) {
	t.Parallel()
	_, err := program("no-such-server", "no-such-package")
	if err == nil || !strings.Contains(err.Error(), "no-such-server is not installed (Debian's package is no-such-package)") {
		t.Errorf("the error is %v", err)
	}
}

func TestStore_AServerCountsWhatItUsesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, start := range starts {
		// The server's user cannot enter directories of t.TempDir.
		dir, err := os.MkdirTemp("", "jobs-bench-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := start(t.Context(), dir, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := s.Empty(t.Context(), "here"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if u, err := s.Use(t.Context()); err != nil || u.CPU <= 0 || u.Calls <= 0 {
			t.Errorf("%s has used %+v, %v; want some CPU and calls", name, u, err)
		}
		if n, err := s.Bytes(t.Context(), "here"); err != nil || n <= 0 {
			t.Errorf("%s: %d bytes, %v; want some", name, n, err)
		}
		s.Stop()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s left %v, %v", name, left, err)
		}
	}
}
