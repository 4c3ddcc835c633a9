package filebroker_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/filebroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// Another process finds a job that one process stored.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "jobs.db")

	// begin open
	b, err := filebroker.Open(path)
	if err != nil {
		log.Fatal(err) // another process has it open, or it is damaged
	}
	_, err = jobs.NewClient(b, jobs.ClientConfig{}).Enqueue(context.Background(), jobs.NewTask("email", []byte("ann")))
	if err != nil {
		log.Fatal(err)
	}
	// The job is on the disk. From here on, nothing that happens to the process loses it.
	// end open
	if err := b.Close(); err != nil {
		log.Fatal(err)
	}

	b, err = filebroker.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	found, err := inspect.New(b).Queues(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found[0].Name, found[0].Counts[broker.StatePending])
	// Output: default 1
}
