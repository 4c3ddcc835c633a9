package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/middleware/payload"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// onBrokers runs a test on every backend.
func onBrokers(t *testing.T, test func(t *testing.T, b broker.Broker)) {
	t.Parallel()
	for name, place := range map[string]func(testing.TB) string{
		"memory": func(testing.TB) string { return "memory://" }, "redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := place(t)
			if err := backends.Migrate(t.Context(), url); err != nil {
				t.Fatal(err)
			}
			b, err := backends.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			test(t, b)
		})
	}
}

// aged makes every blob in a directory older by age.
func aged(t *testing.T, dir string, age time.Duration) (blobs int) {
	t.Helper()
	then := time.Now().Add(-age)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.blob"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
	return len(files)
}

func TestProgram_BlobsLiveAsLongAsTheirJobs(t *testing.T) {
	onBrokers(t, func(t *testing.T, b broker.Broker) {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		dir := t.TempDir()
		blobs, err := payload.OpenFileBlobs(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer blobs.Close()
		ring, err := payload.NewKeyring("k1", map[string][]byte{"k1": bytes.Repeat([]byte{1}, payload.KeySize)})
		if err != nil {
			t.Fatal(err)
		}
		codecs := []payload.Codec{payload.Compress(payload.CompressConfig{}),
			payload.Encrypt(payload.EncryptConfig{Keys: ring}), payload.ClaimCheck(payload.ClaimCheckConfig{Blobs: blobs, MinSize: 1})}
		client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{payload.EncodePayloads(codecs...)}})
		defer client.Close()

		// One of each kind: kept, dead, waiting, gone without a record, and refused.
		enqueue := func(typ string, opts ...jobs.Option) string {
			info, err := client.Enqueue(ctx, jobs.NewTask(typ, []byte("payload of "+typ), append(opts, jobs.WithQueue(queue))...))
			if err != nil {
				t.Fatal(err)
			}
			return info.ID
		}
		kept := enqueue("kept", jobs.WithRetention(time.Hour))
		dead := enqueue("dead", jobs.WithMaxRetries(0))
		enqueue("waiting", jobs.WithDelay(time.Hour), jobs.WithUniqueKey("u"))
		if _, err := client.Enqueue(ctx, jobs.NewTask("refused", []byte("payload"), jobs.WithQueue(queue), jobs.WithUniqueKey("u"))); err == nil {
			t.Fatal("a duplicate was accepted")
		}
		gone := enqueue("gone")

		var mu sync.Mutex
		var seen []string
		server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{queue: 1}, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		server.Start(context.Background(), payload.DecodePayloads(codecs...)(jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
			mu.Lock()
			defer mu.Unlock()
			if got, want := string(job.Payload()), "payload of "+job.Type(); got != want {
				t.Errorf("the handler sees %q, want %q", got, want)
			}
			seen = append(seen, job.ID())
			if job.Type() == "dead" {
				return jobs.SkipRetry
			}
			return nil
		})))
		for _, id := range []string{kept, dead, gone} {
			_, _ = client.Wait(ctx, queue, id) // dead and gone are errors
		}
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		slices.Sort(seen)
		if want := slices.Sorted(slices.Values([]string{kept, dead, gone})); !slices.Equal(seen, want) {
			t.Errorf("handlers saw %v, want %v", seen, want)
		}

		if got, err := payload.CollectBlobs(ctx, blobs, time.Hour, b); err != nil || got != (payload.CollectedBlobs{}) {
			t.Errorf("within the grace %+v was collected, error %v", got, err)
		}
		if n := aged(t, dir, 2*time.Hour); n != 5 {
			t.Errorf("there are %d blobs, want one for each enqueue", n)
		}
		for _, want := range []payload.CollectedBlobs{{Old: 5, Deleted: 2}, {Old: 3}} {
			if got, err := payload.CollectBlobs(ctx, blobs, time.Hour, b); err != nil || got != want {
				t.Errorf("collected %+v, error %v; want %+v", got, err, want)
			}
		}
		report, err := inspect.New(b).Select(inspect.Query{Queue: queue, State: jobs.StateDead}).Delete(ctx)
		if err != nil || report.Done != 1 {
			t.Fatal(fmt.Sprint(report), err)
		}
		if got, err := payload.CollectBlobs(ctx, blobs, time.Hour, b); err != nil || got.Deleted != 1 {
			t.Errorf("after the dead job was deleted %+v was collected, error %v; want its blob", got, err)
		}
	})
}
