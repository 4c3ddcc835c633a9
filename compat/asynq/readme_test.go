package asynqcompat_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// readmeMain runs what the README of asynq has, on a server of package jobs.
const readmeMain = `package main

import (
	"context"
	"fmt"
	"log"

	"github.com/hibiken/asynq"

	"app/tasks"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	asynqcompat "github.com/seed81422ce9/jobs/compat/asynq"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	b := membroker.New()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	enqueue(asynqcompat.Conn(client))

	done := make(chan string, 10)
	mux := asynq.NewServeMux()
	mux.HandleFunc(tasks.TypeEmailDelivery, tasks.HandleEmailDeliveryTask)
	mux.Handle(tasks.TypeImageResize, tasks.NewImageProcessor())
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := next.ProcessTask(ctx, task)
			done <- fmt.Sprint(task.Type(), " ", err)
			return err
		})
	})
	server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{"critical": 6, "default": 3, "low": 1}})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, asynqcompat.Handler(mux)); err != nil {
		log.Fatal(err)
	}
	for range 2 { // the third is for tomorrow
		fmt.Println(<-done)
	}
	cancel()
	if err := server.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
`

// The tasks, the handlers and the client of asynq's README, as the module has it, work with nothing changed but the connection.
func TestReadme_TheExampleOfAsynqRunsUnchanged(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/hibiken/asynq").Output()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 2 || !strings.HasPrefix(blocks[0][1], "package tasks") || !strings.Contains(blocks[1][1], "asynq.NewClient(") {
		t.Fatalf("the README of asynq has %d blocks of Go, not first the tasks and then a client", len(blocks))
	}
	enqueue := strings.NewReplacer("your/app/package/tasks", "app/tasks", "func main()", "func enqueue(conn asynq.RedisConnOpt)",
		"asynq.RedisClientOpt{Addr: redisAddr}", "conn").Replace(blocks[1][1])
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("tasks/tasks.go", blocks[0][1])
	write("enqueue.go", enqueue)
	write("main.go", readmeMain)
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	module := strings.Replace(read("go.mod"), "module github.com/seed81422ce9/jobs/compat/asynq\n", "module app\n", 1)
	module = strings.ReplaceAll(module, "=> ../../", "=> "+filepath.Dir(filepath.Dir(here)))
	write("go.mod", module+"\nrequire github.com/seed81422ce9/jobs/compat/asynq v0.0.0\nreplace github.com/seed81422ce9/jobs/compat/asynq => "+
		here+"\n")
	write("go.sum", read("go.sum"))
	run := exec.Command("go", append(append([]string{"run"}, flagsOfBuild(t)...), ".")...)
	run.Dir, run.Env = dir, append(run.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off")
	text, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{"email:deliver <nil>", "image:resize <nil>",
		"Sending Email to User: user_id=42, template_id=some:template:id", "Resizing image: src=https://example.com/myassets/image.jpg"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the program of the README did not say %q, but\n%s", want, text)
		}
	}
}

// flagsOfBuild returns the flags that this test was compiled with: with them the packages are in the cache already.
func flagsOfBuild(t *testing.T) (flags []string) {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this test has no build information")
	}
	for _, s := range info.Settings {
		if slices.Contains([]string{"-race", "-gcflags", "-ldflags"}, s.Key) {
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return flags
}
