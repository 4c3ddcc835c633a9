package filebroker

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// What a batch costs when each answer is on the disk: of one caller, jobs of 200 bytes.
// Enqueue stores them; Life also claims and completes them, three transactions a batch.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, life := range []bool{false, true} {
			name := map[bool]string{false: "Enqueue", true: "Life"}[life]
			b.Run(fmt.Sprintf("%s/jobs=%d", name, size), func(b *testing.B) { benchmarkBatch(b, size, life) })
		}
	}
}

func benchmarkBatch(b *testing.B, size int, life bool) {
	handle, err := Open(b.TempDir() + "/jobs.db")
	if err != nil {
		b.Fatal(err)
	}
	defer handle.Close()
	if err := register(handle, "w"); err != nil {
		b.Fatal(err)
	}
	payload, news := make([]byte, 200), make([]broker.NewJob, size)
	n, number := 0, int64(0)
	for b.Loop() {
		for i := range news {
			n++
			news[i] = broker.NewJob{Queue: "q", ID: fmt.Sprintf("%020d", n),
				Body: broker.Body{Type: "email:send", Payload: payload, Priority: broker.PriorityNormal, MaxRetries: 25}}
		}
		if _, err := handle.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: news}); err != nil {
			b.Fatal(err)
		}
		if !life {
			continue
		}
		got, err := claim(handle, "w", size)
		if err != nil || len(got.Jobs) != size {
			b.Fatal(len(got.Jobs), err)
		}
		number++
		if err := complete(handle, "w", number, got.Jobs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "jobs/s")
}
