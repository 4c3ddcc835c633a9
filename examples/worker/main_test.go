package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// asProgram makes the test binary the program itself.
const asProgram = "RUN_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	testenv.Main(m)
}

// program returns the worker as a process with only env in its environment.
func program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(env, asProgram+"=1")
	return cmd
}

// start starts the worker and returns the address of its probes.
func start(t *testing.T, env ...string) (worker *exec.Cmd, address string) {
	t.Helper()
	worker = program(t, append(env, "WORKER_LISTEN=127.0.0.1:0"))
	log, err := worker.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		t.Log(lines.Text())
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && strings.Contains(line.Msg, "serving probes") {
			go io.Copy(io.Discard, log)
			return worker, line.Address
		}
	}
	t.Fatalf("the worker ended before it served anything: %v", worker.Wait())
	return nil, ""
}

// oneOff keeps no connections: to close those of http.DefaultClient breaks the requests of
// other tests.
var oneOff = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := oneOff.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestMain_TheWorkerDoesItsJobsAndDrainsWhenAsked(t *testing.T) {
	for name, place := range map[string]func(testing.TB) string{"redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := place(t)
			mails := newMailServer(t, nil)
			dir, _ := images(t, map[string][]byte{"in.png": picture(t, 40, 20)})
			worker, address := start(t, "JOBS_BROKER="+url, "JOBS_QUEUES=default,other", "SMTP_HOST=127.0.0.1",
				"SMTP_PORT="+strconv.Itoa(mails.port), "SMTP_FROM=jobs@example.com", "SMTP_TLS=none", "IMAGE_DIR="+dir)

			for typ, payload := range map[string]string{
				"email:send":   `{"to":["ada@example.com"],"subject":"Hi","text":"Hello."}`,
				"image:resize": `{"source":"in.png","target":"out.png","width":10,"height":10}`,
			} {
				out, err := program(t, []string{"JOBS_BROKER=" + url}, "enqueue", typ, payload).Output()
				if err != nil || strings.TrimSpace(string(out)) == "" {
					t.Fatalf("enqueue %s prints %q, %v; want an ID", typ, out, err)
				}
			}
			select {
			case mail := <-mails.mails:
				if !strings.Contains(mail, "Subject: Hi") {
					t.Errorf("the mail is %q", mail)
				}
			case <-time.After(30 * time.Second):
				t.Error("no mail came")
			}
			awaitIdle(t, url)
			if _, err := os.Stat(filepath.Join(dir, "out.png")); err != nil {
				t.Error(err)
			}
			for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/stats": `"name": "other"`,
				"/metrics": "jobs_processed_total{"} {
				if status, body := get(t, "http://"+address+path); status != 200 || !strings.Contains(body, want) {
					t.Errorf("GET %s answers %d %q, want 200 and %q", path, status, body, want)
				}
			}
			if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := worker.Wait(); err != nil {
				t.Errorf("after SIGTERM the worker ended with %v", err)
			}
		})
	}
}

// awaitIdle waits until the default queue has no job left.
func awaitIdle(t *testing.T, url string) {
	t.Helper()
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		q, err := inspect.New(b).Queue(ctx, jobs.DefaultQueue)
		if err != nil {
			t.Fatal(err)
		}
		var left int64
		for _, n := range q.Counts {
			left += n
		}
		if left == 0 {
			return
		}
		<-look.C
	}
}

func TestMain_TheWorkerSaysWhatItsEnvironmentMisses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  []string
		says string
	}{
		{"no broker", nil, "JOBS_BROKER"},
		{"a broker of no kind", []string{"JOBS_BROKER=carrier-pigeon://secret@here", "IMAGE_DIR=/"}, "scheme"},
		{"nothing to do", []string{"JOBS_BROKER=memory://"}, "SMTP_HOST"},
		{"no sender", []string{"JOBS_BROKER=memory://", "SMTP_HOST=localhost"}, "SMTP_FROM"},
		{"a bad sender", []string{"JOBS_BROKER=memory://", "SMTP_HOST=localhost", "SMTP_FROM=secret"}, "SMTP_FROM"},
		{"a bad policy", []string{"JOBS_BROKER=memory://", "SMTP_HOST=localhost", "SMTP_FROM=a@b.c", "SMTP_TLS=maybe"}, "SMTP_TLS"},
		{"a bad port", []string{"JOBS_BROKER=memory://", "SMTP_PORT=x"}, "SMTPPort"},
		{"no directory", []string{"JOBS_BROKER=memory://", "IMAGE_DIR=/does/not/exist"}, "IMAGE_DIR"},
		{"a bad address", []string{"JOBS_BROKER=memory://", "IMAGE_DIR=/", "WORKER_LISTEN=nowhere"}, "listen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := program(t, c.env).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "secret") {
				t.Errorf("it ends with %v and says %q; want a failure that names %s and no secret", err, out, c.says)
			}
		})
	}
}
