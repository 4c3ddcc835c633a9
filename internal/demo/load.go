package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs"
)

// kind is a type of job, and how its handler can fail.
type kind struct {
	typ     string
	queue   string
	share   int // of all jobs
	takes   time.Duration
	payload func(n int) string
	fails   func(n int) error
}

var errGone = errors.New("410 Gone")

// Queues of the demo, with their weights.
var weights = map[string]int{"critical": 6, "default": 3, "low": 1}

var kinds = []kind{
	{"email:welcome", "default", 40, 80 * time.Millisecond,
		func(n int) string { return fmt.Sprintf(`{"user":%d,"template":"welcome"}`, n) },
		func(n int) error { return fmt.Errorf("smtp: 451 mailbox of user %d is busy, try again", n) }},
	{"invoice:charge", "critical", 20, 120 * time.Millisecond,
		func(n int) string { return fmt.Sprintf(`{"invoice":%d,"cents":%d}`, n, 100+n%9000) },
		func(n int) error { return fmt.Errorf("payment gateway: timeout after %d ms", 3000+n%1000) }},
	{"webhook:deliver", "default", 25, 150 * time.Millisecond,
		func(n int) string {
			return fmt.Sprintf(`{"event":%d,"url":"https://example.com/hooks","note":"<script>alert(%d)</script>"}`, n, n)
		},
		func(n int) error {
			if n%4 == 0 {
				return fmt.Errorf("POST https://example.com/hooks: %w: %w", errGone, jobs.SkipRetry)
			}
			return jobs.RetryAfter(2*time.Second, errors.New("POST https://example.com/hooks: 503 Service Unavailable"))
		}},
	{"image:thumbnail", "low", 15, 300 * time.Millisecond,
		func(n int) string { return fmt.Sprintf(`{"image":"photo-%d.jpg","width":320}`, n%imageCount) },
		func(n int) error { return fmt.Errorf("decode photo-%d.jpg: unexpected EOF", n%imageCount) }},
}

const (
	imageCount = 50 // few, so that their unique keys are held now and then
	runTimeout = 3 * time.Second
	beat       = 100 * time.Millisecond
	maxBeat    = 1000 // jobs at once
)

// tenants are unlike each other: the first has most of the jobs.
var tenants = []string{"acme", "acme", "acme", "acme", "globex", "globex", "initech"}

// task makes the job number n.
func (d *Demo) task(k kind, n int) *jobs.Task {
	options := []jobs.Option{jobs.WithQueue(d.cfg.Prefix + k.queue), jobs.WithPartitionKey(tenants[rand.N(len(tenants))]),
		jobs.WithMaxRetries(3),
		jobs.WithTimeout(runTimeout), jobs.WithSource("demo"), jobs.WithHeader("traceparent",
			fmt.Sprintf("00-%016x%016x-%016x-01", rand.Uint64(), rand.Uint64(), rand.Uint64()))}
	if k.typ == "image:thumbnail" {
		options = append(options, jobs.WithUniqueKey(fmt.Sprintf("photo-%d", n%imageCount)))
	}
	switch rand.N(10) {
	case 0:
		options = append(options, jobs.WithPriority(jobs.PriorityUrgent))
	case 1:
		options = append(options, jobs.WithDelay(2*time.Second+rand.N(18*time.Second)))
	case 2:
		options = append(options, jobs.WithPriority(jobs.PriorityBulk))
	}
	return jobs.NewTask(k.typ, []byte(k.payload(n)), options...)
}

// pick draws a kind by its share.
func pick() kind {
	at := rand.N(100)
	for _, k := range kinds {
		if at -= k.share; at < 0 {
			return k
		}
	}
	panic("demo: the shares do not add up to 100")
}

// produce enqueues at the rate, in batches, until ctx ends.
func (d *Demo) produce(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	owed := 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		owed = min(owed+d.Knobs().Rate*beat.Seconds(), maxBeat)
		tasks := make([]*jobs.Task, int(owed))
		for i := range tasks {
			tasks[i] = d.task(pick(), int(d.number.Add(1)))
		}
		owed -= float64(len(tasks))
		if len(tasks) > 0 {
			_ = d.enqueue(context.WithoutCancel(ctx), tasks) // the accounts say what was refused
		}
	}
}

// enqueue notes in the accounts what became of each task.
func (d *Demo) enqueue(ctx context.Context, tasks []*jobs.Task) error {
	receipts, err := d.client.EnqueueMany(ctx, tasks)
	d.ledger.accepted(receipts)
	return err
}
