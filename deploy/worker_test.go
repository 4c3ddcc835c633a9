package deploy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/middleware/observe"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed81422ce9/jobs/broker"
)

// buildWorker builds the worker as the image does, and returns its path.
func buildWorker(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "../examples/worker")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

type workerProcess struct {
	cmd     *exec.Cmd
	address string // address of its metrics
	log     strings.Builder
	read    chan struct{} // closed when the log is complete
}

// startWorker starts a worker with env as its whole environment.
func startWorker(t *testing.T, program string, env map[string]string) *workerProcess {
	t.Helper()
	w := &workerProcess{cmd: exec.Command(program), read: make(chan struct{})}
	for name, value := range env {
		w.cmd.Env = append(w.cmd.Env, name+"="+value)
	}
	log, err := w.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() {
		defer close(w.read)
		defer close(address)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			w.log.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && strings.Contains(line.Msg, "serving probes") {
				address <- line.Address
			}
		}
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.read
		_ = w.cmd.Wait()
		if t.Failed() {
			t.Logf("a worker told:\n%s", w.log.String())
		}
	})
	w.address = <-address
	if w.address == "" {
		t.Fatal("a worker ended at once")
	}
	return w
}

func (w *workerProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (w *workerProcess) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-w.read:
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("asked to end, a worker ended with %v", err)
		}
	case <-time.After(soon):
		t.Error("asked to end, a worker did not")
	}
}

// awaitOK waits until the URL answers with status 200.
func awaitOK(t *testing.T, url string) {
	t.Helper()
	late := time.After(soon)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		resp, err := oneOff.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%s answers %d %s", url, resp.StatusCode, body)
		}
	}
}

// serveMetrics serves metrics of a process that only enqueues, and returns them with
// their address.
func serveMetrics(t *testing.T, b broker.Broker) (*observe.Metrics, string) {
	t.Helper()
	registry := client.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	m, err := observe.NewMetrics(observe.MetricsConfig{Broker: b, MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(func() {
		web.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, web.Listener.Addr().String()
}

// newImages returns a new directory with one image.
func newImages(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "in.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, image.NewGray(image.Rect(0, 0, 32, 32))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mailServer accepts mail. It refuses mail to nobody for good and mail to busy
// temporarily, and holds mail to hold until it is released.
type mailServer struct {
	port     int
	held     chan struct{}
	released chan struct{}
	release  func()
}

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{port: l.Addr().(*net.TCPAddr).Port, held: make(chan struct{}, 100), released: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.released) })
	var talks sync.WaitGroup
	talks.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			talks.Go(func() { s.talk(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.release()
		talks.Wait() // wait for connections of workers that have ended
	})
	return s
}

func (s *mailServer) awaitHeld(t *testing.T) {
	t.Helper()
	select {
	case <-s.held:
	case <-time.After(soon):
		t.Fatal("the mail that is to be held did not come")
	}
}

func (s *mailServer) talk(conn net.Conn) {
	defer conn.Close()
	fmt.Fprint(conn, "220 here\r\n")
	hold, data := false, false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		line := lines.Text()
		switch {
		case data && line != ".":
			continue
		case data:
			data = false
			if hold {
				s.held <- struct{}{}
				<-s.released
			}
			fmt.Fprint(conn, "250 taken\r\n")
		case strings.HasPrefix(line, "DATA"):
			data = true
			fmt.Fprint(conn, "354 go on\r\n")
		case strings.HasPrefix(line, "RCPT") && strings.Contains(line, "nobody@"):
			fmt.Fprint(conn, "550 no such user\r\n")
		case strings.HasPrefix(line, "RCPT") && strings.Contains(line, "busy@"):
			fmt.Fprint(conn, "450 busy\r\n")
		case strings.HasPrefix(line, "QUIT"):
			fmt.Fprint(conn, "221 bye\r\n")
			return
		default:
			hold = hold || strings.HasPrefix(line, "RCPT") && strings.Contains(line, "hold@")
			fmt.Fprint(conn, "250 fine\r\n")
		}
	}
}
