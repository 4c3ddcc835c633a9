package relay

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// BenchmarkRelay_PostgresToRedis relays pending jobs of 200 bytes from Postgres to
// Redis. Each has one of a hundred keys. An iteration is one job:
//
//	go test ./relay -run '^$' -bench PostgresToRedis -benchtime 100000x
func BenchmarkRelay_PostgresToRedis(b *testing.B) {
	source := testenv.PostgresPlace(b)
	if err := backends.Migrate(b.Context(), source); err != nil {
		b.Fatal(err)
	}
	from, to := open(b, source), open(b, testenv.RedisPlace(b))
	payload := []byte(strings.Repeat("x", 200))
	for n := 0; n < b.N; {
		var batch []broker.NewJob
		for ; len(batch) < 1000 && n < b.N; n++ {
			batch = append(batch, broker.NewJob{Queue: outbox, ID: fmt.Sprintf("01ARZ3NDEKTSV4RRFF%08d", n),
				Body: broker.Body{Type: "task", Priority: broker.PriorityNormal, Payload: payload, Key: fmt.Sprint("key", n%100)}})
		}
		accepted(b, from, batch...)
	}
	r, err := New(Config{From: from, FromQueue: outbox, To: to, ToQueue: mail, StopWhenEmpty: true, Logger: discard})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	began := time.Now()
	if err := r.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "jobs/s")
	b.StopTimer()
	if n := r.Stats().Relayed; n != int64(b.N) {
		b.Errorf("%d jobs were relayed, want %d", n, b.N)
	}
}

func open(t testing.TB, url string) broker.Broker {
	t.Helper()
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
