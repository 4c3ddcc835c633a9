// Command image-resize makes thumbnails of all pictures of a directory. A job's payload
// is a whole picture of up to 16 MiB, but the job store does not hold it: pictures go
// to a directory of blobs, and jobs refer to them.
//
//	image-resize FROM TO [BLOBS]
//
// JOBS_BROKER is the URL of the store; without it the jobs are in memory.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware/payload"
)

const queue = "images"

// kinds are the extensions of pictures.
var kinds = []string{".png", ".jpg", ".jpeg", ".gif"}

// Thumbnail is the result of a job.
type Thumbnail struct {
	File          string
	Width, Height int
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		log.Fatal("image-resize: ", err)
	}
}

// run runs the program.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("usage: image-resize FROM TO [BLOBS]")
	}
	from, to, dir := args[0], args[1], filepath.Join(args[1], ".blobs")
	if len(args) == 3 {
		dir = args[2]
	}
	b, err := backends.Open(ctx, cmp.Or(os.Getenv("JOBS_BROKER"), "memory://"))
	if err != nil {
		return err
	}
	defer b.Close()
	blobs, err := payload.OpenFileBlobs(dir)
	if err != nil {
		return err
	}
	defer blobs.Close()
	return resizeAll(ctx, b, blobs, from, to, out)
}

// begin reference

// client is a client whose large payloads are kept in blobs.
func client(b broker.Broker, blobs payload.Blobs) *jobs.Client {
	return jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{
		payload.EncodePayloads(payload.ClaimCheck(payload.ClaimCheckConfig{Blobs: blobs})),
	}})
}

// handlers are the handlers, which get the pictures themselves.
func handlers(blobs payload.Blobs, to string) *jobs.ServeMux {
	mux := jobs.NewServeMux()
	mux.Use(payload.DecodePayloads(payload.ClaimCheck(payload.ClaimCheckConfig{Blobs: blobs})))
	mux.HandleFunc("image:resize", func(ctx context.Context, job *jobs.Job) error {
		done, err := resize(job.Payload(), filepath.Join(to, filepath.Base(job.Header("file"))))
		if err != nil {
			return err
		}
		return jobs.SetResult(job, done)
	})
	return mux
}

// end reference

// resizeAll enqueues the pictures of a directory and handles the jobs.
func resizeAll(ctx context.Context, b broker.Broker, blobs payload.Blobs, from, to string, out io.Writer) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	c := client(b, blobs)
	defer c.Close()
	server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{queue: 1}, Concurrency: 4}) // a picture takes much memory
	if err != nil {
		return err
	}
	if err := server.Start(ctx, handlers(blobs, to)); err != nil {
		return err
	}
	var enqueued []*jobs.JobInfo
	for _, file := range files {
		if file.IsDir() || !slices.Contains(kinds, strings.ToLower(filepath.Ext(file.Name()))) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, file.Name()))
		if err != nil {
			return err
		}
		info, err := c.Enqueue(ctx, jobs.NewTask("image:resize", data), jobs.WithQueue(queue),
			jobs.WithHeader("file", file.Name()), jobs.WithRetention(time.Hour), jobs.WithMaxRetries(3))
		if err != nil {
			return fmt.Errorf("%s: %w", file.Name(), err)
		}
		enqueued = append(enqueued, info)
	}
	for _, info := range enqueued {
		done, err := jobs.Await[Thumbnail](ctx, c, info.Queue, info.ID)
		if err != nil {
			fmt.Fprintln(out, err)
			continue
		}
		fmt.Fprintf(out, "%s: %d by %d\n", filepath.Base(done.File), done.Width, done.Height)
	}
	return server.Shutdown(ctx)
}
