package payload_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/seed81422ce9/jobs/middleware/payload"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// Payloads are compressed, encrypted and, if they are still large, kept outside
// of the queue. Handlers see them unchanged.
func ExampleEncodePayloads() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	dir, err := os.MkdirTemp("", "blobs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	key := make([]byte, payload.KeySize)
	rand.Read(key) // in production it comes from where secrets are kept

	// begin codecs
	ring, err := payload.NewKeyring("2026-11", map[string][]byte{"2026-11": key})
	if err != nil {
		log.Fatal(err)
	}
	blobs, err := payload.OpenFileBlobs(dir)
	if err != nil {
		log.Fatal(err)
	}
	codecs := []payload.Codec{ // the same, in the same order, on both sides
		payload.Compress(payload.CompressConfig{}),
		payload.Encrypt(payload.EncryptConfig{Keys: ring}),
		payload.ClaimCheck(payload.ClaimCheckConfig{Blobs: blobs, MinSize: 200}),
	}
	client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{payload.EncodePayloads(codecs...)}})
	mux := jobs.NewServeMux()
	mux.Use(payload.DecodePayloads(codecs...))
	// end codecs
	defer blobs.Close()
	defer client.Close()

	mux.HandleFunc("report", func(ctx context.Context, job *jobs.Job) error {
		fmt.Println("the handler sees", len(job.Payload()), "bytes")
		return nil
	})
	server, err := jobs.NewServer(b, jobs.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown(ctx)

	var large []byte
	for i := range 10_000 {
		large = fmt.Appendf(large, "%d bottles of beer on the wall\n", i)
	}
	for _, payload := range [][]byte{bytes.Repeat([]byte("beer "), 1000), large} {
		info, err := client.Enqueue(ctx, jobs.NewTask("report", payload), jobs.WithRetention(time.Hour))
		if err != nil {
			log.Fatal(err)
		}
		record, err := client.Wait(ctx, info.Queue, info.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("compressed with %s, key %s, in the queue: %v, in a blob: %v\n", record.Headers["jobs-compression"],
			record.Headers["jobs-encryption"], len(record.Payload) > 0, record.PayloadRef != "")
	}
	// Output:
	// the handler sees 5000 bytes
	// compressed with zstd, key 2026-11, in the queue: true, in a blob: false
	// the handler sees 328890 bytes
	// compressed with zstd, key 2026-11, in the queue: false, in a blob: true
}

// A job that runs once an hour, for example, removes the blobs that no job needs
// any more.
func ExampleCollectBlobs() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	dir, err := os.MkdirTemp("", "blobs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	blobs, err := payload.OpenFileBlobs(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer blobs.Close()

	collected, err := payload.CollectBlobs(ctx, blobs, 24*time.Hour, b)
	if err != nil {
		log.Fatal(err) // what was deleted by then is deleted; the next run goes on
	}
	fmt.Printf("%d blobs are older than a day, %d of them were orphans\n", collected.Old, collected.Deleted)
	// Output:
	// 0 blobs are older than a day, 0 of them were orphans
}
