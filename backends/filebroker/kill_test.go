package filebroker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The environment of the process that the test kills.
const (
	childFile  = "FILEBROKER_TEST_CHILD"
	childRound = "FILEBROKER_TEST_ROUND"
)

// A child process enqueues, claims and completes without end, each in a goroutine of its
// own, and prints what was answered. It is this test's program, run again.
func TestChild_WorksUntilItIsKilled(t *testing.T) {
	path, round := os.Getenv(childFile), os.Getenv(childRound)
	if path == "" {
		return // it is not the child
	}
	b, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	worker, said := "w"+round, make(chan string, 1)
	if err := register(b, worker); err != nil {
		t.Fatal(err)
	}
	go func() {
		for n := 0; ; n++ {
			if err := enqueue(t.Context(), b, batchIDs(round, n)...); err != nil {
				said <- fmt.Sprint("failed to enqueue: ", err)
			}
			said <- fmt.Sprint("enqueued ", n)
		}
	}()
	go func() {
		for n := int64(1); ; n++ {
			got, err := claim(b, worker, 30)
			if err != nil {
				said <- fmt.Sprint("failed to claim: ", err)
			}
			for _, j := range got.Jobs {
				said <- "claimed " + j.ID
			}
			if err := complete(b, worker, n, got.Jobs); err != nil {
				said <- fmt.Sprint("failed to complete: ", err)
			}
			for _, j := range got.Jobs {
				said <- "completed " + j.ID
			}
		}
	}()
	for line := range said {
		fmt.Println(line)
	}
}

const batchSize = 20

func batchIDs(round string, n int) (ids []string) {
	for i := range batchSize {
		ids = append(ids, fmt.Sprintf("%s-%d-%d", round, n, i))
	}
	return ids
}

func TestOpen_AfterKill9HasAllThatWasAnsweredAndNoHalfOfACall(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	for round := range 4 {
		said := runAndKill(t, path, fmt.Sprint(round), 150+100*round)
		b := openTest(t, path)
		consistent(t, b)
		state, batches := make(map[string]broker.State), 0
		for _, line := range said {
			what, about, _ := strings.Cut(line, " ")
			switch what {
			case "enqueued":
				batches++
			case "claimed":
				state[about] = broker.StateActive
			case "completed":
				state[about] = broker.StateCompleted
			default:
				t.Errorf("round %d: the child said %q", round, line)
			}
		}
		for n := range batches + 1 { // the last one may have been in progress
			stored := found(t, b, batchIDs(fmt.Sprint(round), n)...)
			if len(stored) != batchSize && (n < batches || len(stored) > 0) {
				t.Errorf("round %d, batch %d of %d that were answered: %d of %d jobs are stored", round, n, batches, len(stored), batchSize)
			}
			for id, is := range stored {
				if was := state[id]; was == broker.StateActive && is == broker.StatePending || was == broker.StateCompleted && is != was {
					t.Errorf("round %d: job %s was %v when the process was killed, and is %v", round, id, was, is)
				}
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// runAndKill runs a child on a file, kills it after enough lines, and returns all lines
// that it printed. It checks that nobody else can open the file while the child lives.
func runAndKill(t *testing.T, path, round string, enough int) (said []string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run", "^TestChild_WorksUntilItIsKilled$", "-test.v=false")
	c.Env = append(os.Environ(), childFile+"="+path, childRound+"="+round)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // a line that was cut off does not count
			if !errors.Is(err, io.EOF) {
				t.Errorf("reading what the child says: %v", err)
			}
			break
		}
		if said = append(said, strings.TrimSpace(line)); len(said) == enough {
			refused(t, path)
			if err := c.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Wait(); len(said) < enough {
		t.Fatalf("the child ended by itself (%v) and had said %v", err, said)
	}
	return said
}

func refused(t *testing.T, path string) {
	t.Helper()
	start := time.Now()
	b, err := Open(path)
	if err == nil {
		b.Close()
		t.Error("two processes have the file open")
	}
	if !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "another process has "+path+" open") {
		t.Errorf("while another process has the file open, Open answers %v; want ErrUnavailable and the file's name", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("that took %v; it should not wait for the other process", took)
	}
}
