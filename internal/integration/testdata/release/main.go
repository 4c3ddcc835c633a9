// Command release shares its queues with the same program, built from another release. It handles the jobs of QUEUE and
// enqueues jobs to OTHER, the other program's queue. It prints what it does, a line each.
//
//	release URL NAME QUEUE OTHER
//
// Each line on standard input is an order: "enqueue" makes it enqueue a job of each kind to OTHER, "stop" makes it drain.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, name, queue, other string) error {
	if err := backends.Migrate(ctx, url); err != nil {
		return err
	}
	b, err := backends.Open(ctx, url)
	if err != nil {
		return err
	}
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{queue: 1}, Lease: time.Second, Program: "release " + name,
		RetryPolicy: jobs.Constant(10 * time.Millisecond)})
	if err != nil {
		return err
	}
	if err := server.Start(ctx, jobs.HandlerFunc(handle)); err != nil {
		return err
	}
	fmt.Println("ready")
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		switch orders.Text() {
		case "enqueue":
			if err := enqueue(ctx, client, name, other); err != nil {
				return err
			}
			fmt.Println("enqueued")
		case "stop":
			return server.Shutdown(ctx)
		}
	}
	return nil
}

// handle prints the job that it gets. Jobs of type "fails" fail once, and the handler never returns for type "hangs".
func handle(ctx context.Context, job *jobs.Job) error {
	fmt.Println(job.Type(), string(job.Payload()), job.Attempt(), job.Header("from"))
	switch {
	case job.Type() == "fails" && job.Attempt() == 0:
		return errors.New("the first attempt")
	case job.Type() == "hangs":
		<-make(chan struct{})
	}
	return nil
}

// enqueue enqueues a job of each kind.
func enqueue(ctx context.Context, client *jobs.Client, name, queue string) error {
	task := func(typ string, opts ...jobs.Option) *jobs.Task {
		return jobs.NewTask(typ, []byte("by-"+name), append(opts, jobs.WithQueue(queue), jobs.WithHeader("from", "\xff"+name))...)
	}
	for _, t := range []*jobs.Task{task("plain"), task("fails"), task("later", jobs.WithDelay(50*time.Millisecond)),
		task("keyed", jobs.WithPartitionKey("tenant")), task("urgent", jobs.WithPriority(jobs.PriorityUrgent)),
		task("kept", jobs.WithRetention(time.Hour)), task("given", jobs.WithID("given-"+name)),
		task("hangs", jobs.WithMaxRetries(0))} {
		if _, err := client.Enqueue(ctx, t); err != nil {
			return err
		}
	}
	// Both programs enqueue this job to both queues, with the same unique key.
	for _, q := range []string{"old", "new"} {
		_, err := client.Enqueue(ctx, jobs.NewTask("unique", []byte("by-"+name), jobs.WithQueue(q), jobs.WithDelay(time.Hour),
			jobs.WithUniqueKey("only one")))
		if err != nil && !errors.Is(err, jobs.ErrDuplicate) {
			return err
		}
		fmt.Println("unique of", q, "accepted", err == nil)
	}
	return nil
}
