package integration

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/testenv"

	"github.com/seed81422ce9/jobs/backends"
)

// buildRelease builds testdata/release from the source of the last release and from this one. While there is no release,
// both come from this source, so that the test itself is tested.
func buildRelease(t *testing.T) (last, this, tag string) {
	t.Helper()
	dir := t.TempDir()
	build := func(source, name string) string {
		out := filepath.Join(dir, name)
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", out, "./internal/integration/testdata/release")
		cmd.Dir, cmd.Env = source, append(cmd.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building the program of the %s release: %v\n%s", name, err, text)
		}
		return out
	}
	const root = "../.."
	this = build(root, "this")
	found, err := exec.Command("git", "-C", root, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*").Output()
	if err != nil {
		t.Log("there is no release yet: this one shares its queues with itself")
		return this, this, "none"
	}
	tag = strings.TrimSpace(string(found))
	source := filepath.Join(dir, "source")
	unpack := exec.Command("sh", "-ec", `mkdir "$1" && git -C "$2" archive "$3" >"$1.tar" && tar -xf "$1.tar" -C "$1"`,
		"sh", source, root, tag)
	if text, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("the source of %s: %v\n%s", tag, err, text)
	}
	return build(source, "last"), this, tag
}

// released is a running testdata/release.
type released struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders io.WriteCloser
	told   chan string
	seen   []string
}

func startRelease(t *testing.T, program, url, name, queue, other string) *released {
	t.Helper()
	r := &released{t: t, cmd: exec.Command(program, url, name, queue, other), told: make(chan string, 100)}
	r.cmd.Stderr = t.Output()
	var err error
	if r.orders, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.told)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.told <- lines.Text()
		}
	}()
	t.Cleanup(r.kill)
	r.await("ready")
	return r
}

// kill ends the process as a crash does.
func (r *released) kill() {
	_ = r.cmd.Process.Kill()
	for range r.told {
	}
	_ = r.cmd.Wait()
}

func (r *released) order(what string) {
	r.t.Helper()
	if _, err := fmt.Fprintln(r.orders, what); err != nil {
		r.t.Fatal(err)
	}
}

// await waits until the process has printed all of these lines, in any order.
func (r *released) await(lines ...string) {
	r.t.Helper()
	late := time.After(soon)
	for _, line := range lines {
		for !slices.Contains(r.seen, line) {
			select {
			case told, ok := <-r.told:
				if !ok {
					r.t.Fatalf("the process ended; it told %q, and not %q", r.seen, line)
				}
				r.seen = append(r.seen, told)
			case <-late:
				r.t.Fatalf("the process told %q, and not %q", r.seen, line)
			}
		}
	}
}

// jobsOf returns the lines that a handler prints for the jobs of a program.
func jobsOf(name string) (lines []string) {
	for _, of := range []string{"plain 0", "fails 0", "fails 1", "later 0", "keyed 0", "urgent 0", "kept 0", "given 0", "hangs 0"} {
		typ, attempt, _ := strings.Cut(of, " ")
		lines = append(lines, fmt.Sprintf("%s by-%s %s \xff%s", typ, name, attempt, name))
	}
	return lines
}

// Each release handles what the other enqueued, holds its unique keys against it, and takes over from it when it is killed.
func TestReleases_TheLastOneAndThisOneShareTheirQueues(t *testing.T) {
	t.Parallel()
	last, this, tag := buildRelease(t)
	for name, place := range map[string]func(testing.TB) string{"redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := place(t)
			older := startRelease(t, last, url, "old", "old", "new") // it creates the store's layout
			newer := startRelease(t, this, url, "new", "new", "old")
			older.order("enqueue")
			newer.await(jobsOf("old")...)
			older.await("unique of old accepted true", "unique of new accepted true", "enqueued")
			newer.order("enqueue")
			older.await(jobsOf("new")...)
			newer.await("unique of old accepted false", "unique of new accepted false", "enqueued")

			older.kill() // so another server of the queue takes over the hanging job
			newer.kill()
			swapped := [2]*released{startRelease(t, this, url, "new", "old", "new"), startRelease(t, last, url, "old", "new", "old")}
			swapped[0].await("hangs by-new 0 \xffnew")
			swapped[1].await("hangs by-old 0 \xffold")
			sound(t, url, tag)
		})
	}
}

// sound checks that Examine of this release finds nothing in the store.
func sound(t *testing.T, url, tag string) {
	t.Helper()
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for f, err := range inspect.New(b).Examine(t.Context(), inspect.Examination{}) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Queue != "" {
			t.Errorf("in a store that %s and this release worked on: %+v", tag, f)
		}
	}
}
