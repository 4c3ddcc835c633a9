// Command export moves dead jobs into an object store: it deletes them when the object
// is stored. inspect.Import and "jobsctl import" read them back.
//
//	export QUEUE
//
// JOBS_BROKER is the URL of the store. S3_URL (of the bucket), S3_REGION,
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY describe the object store.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal("export: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: export QUEUE")
	}
	for _, name := range []string{"JOBS_BROKER", "S3_URL"} {
		if os.Getenv(name) == "" {
			return fmt.Errorf("%s is not set; it is a URL", name)
		}
	}
	b, err := backends.Open(ctx, os.Getenv("JOBS_BROKER"))
	if err != nil {
		return err
	}
	defer b.Close()
	bucket := &Bucket{URL: os.Getenv("S3_URL"), Region: os.Getenv("S3_REGION"),
		Key: os.Getenv("AWS_ACCESS_KEY_ID"), Secret: os.Getenv("AWS_SECRET_ACCESS_KEY")}
	report, err := Export(ctx, inspect.New(b), args[0], bucket.Put)
	fmt.Println(report.Done, "jobs were moved")
	return err
}

// begin export

// Export moves the dead jobs of a queue into objects, each with some hundreds of
// jobs. A job is deleted when its object is stored. After an error, call it again: a job that was not
// deleted may then be in two objects, but is imported once, by its ID.
func Export(ctx context.Context, i *inspect.Inspector, queue string, put func(ctx context.Context, name string, data []byte) error) (
	inspect.Report, error) {
	var page bytes.Buffer // any io.Writer does; this one becomes an object at each flush
	began, n := time.Now().UTC().Format("20060102T150405.000"), 0
	flush := func() error {
		if page.Len() == 0 {
			return nil
		}
		name := fmt.Sprintf("%s-%s-%06d.ndjson", queue, began, n)
		if err := put(ctx, name, page.Bytes()); err != nil {
			return err
		}
		page.Reset()
		n++
		return nil
	}
	dead := inspect.Query{Queue: queue, State: broker.StateDead}
	return i.Select(dead).ExportAndDelete(ctx, &page, flush)
}

// end export
