package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// onStores runs a test with the stores that processes can share.
func onStores(t *testing.T, test func(t *testing.T, url string)) {
	for name, place := range map[string]func(testing.TB) string{"redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, place(t))
		})
	}
}

// program starts the program as a separate process in a working directory.
func program(t *testing.T, work string, args ...string) (cmd *exec.Cmd, out, log *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, log = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, out, log
}

func TestProcess_AKilledWorkerProcessCostsNoFile(t *testing.T) {
	t.Parallel()
	work, dir := filepath.Split(many(t, 5000))
	want := sha256sumIn(t, work, dir)
	onStores(t, func(t *testing.T, url string) {
		// The workers have another working directory than the one that the path is relative
		// to.
		main, out, log := program(t, work, "-broker", url, "-run", "r", "-workers", "0", dir)
		args := []string{"-broker", url, "-run", "r", "-work", "-workers", "2", "-lease", "1s"}
		victim, _, _ := program(t, "/", args...)
		awaitCompleted(t, url, 100)
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		program(t, "/", args...)
		if err := main.Wait(); err != nil {
			t.Errorf("the run ended with %v; standard error:\n%s", err, log)
		}
		compare(t, out.String(), want)
	})
}

func TestProcess_AKilledRunIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	dir := many(t, 3000)
	want := sha256sum(t, dir)
	onStores(t, func(t *testing.T, url string) {
		args := []string{"-broker", url, "-run", "r", "-workers", "2", "-lease", "1s", dir}
		first, _, _ := program(t, "/", args...)
		awaitCompleted(t, url, 100)
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		second, out, log := program(t, "/", args...)
		if err := second.Wait(); err != nil {
			t.Errorf("the run taken up again ended with %v; standard error:\n%s", err, log)
		}
		compare(t, out.String(), want)
	})
}

func TestProcess_AWorkerServesARunAgainUnderItsName(t *testing.T) {
	t.Parallel()
	dir := many(t, 50)
	want := sha256sum(t, dir)
	onStores(t, func(t *testing.T, url string) {
		program(t, "/", "-broker", url, "-run", "r", "-work")
		for range 2 {
			var out, log bytes.Buffer
			if status := run(t.Context(), []string{"-broker", url, "-run", "r", "-workers", "0", dir}, &out, &log); status != 0 {
				t.Errorf("the exit status is %d; standard error:\n%s", status, log.String())
			}
			compare(t, out.String(), want)
		}
	})
}

// awaitCompleted waits until n jobs of the run r are completed.
func awaitCompleted(t *testing.T, url string, n int64) {
	t.Helper()
	if err := backends.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	late := time.After(30 * time.Second)
	for {
		q, err := inspect.New(b).Queue(t.Context(), settings{name: "r"}.queue())
		if err == nil && q.Counts[jobs.StateCompleted] >= n {
			return
		}
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("waited 30s for %d files to be hashed (last error: %v)", n, err)
		}
	}
}
