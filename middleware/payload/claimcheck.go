package payload

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
	"github.com/seed81422ce9/jobs/internal/field"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// ClaimCheckConfig configures ClaimCheck. Blobs is required.
type ClaimCheckConfig struct {
	// Blobs stores the payloads. Producers and handlers need the same blobs. It is required.
	Blobs Blobs
	// MinSize is the size from which payloads go to the blob store, in bytes.
	// Zero means 64 KiB.
	MinSize int
	// MaxSize is the largest payload in bytes: a larger one is refused by
	// Enqueue, and a job that names a larger one is dead. Zero means 16 MiB.
	MaxSize int
}

const (
	claimHeader         = coding.HeaderClaim
	defaultClaimMinSize = 64 << 10
)

// ClaimCheck is the codec that puts large payloads into a blob store, so that
// queues stay small and fast. The job keeps the blob's key (Body.PayloadRef) and,
// in the header jobs-claim, its length and SHA-256. A job whose blob does not
// match these is dead (ErrTampered). If the blob is missing (ErrNoBlob) or its
// store fails, the run fails, and the job is retried by policy. Enqueue fails if
// the blob cannot be put.
//
// The blob is put before the job is stored. It is not removed after a run, since
// the job can be delivered again. So every job that ends, and every Enqueue that
// fails, leaves a blob behind; CollectBlobs removes them.
//
// The payload of a job that may replace another one (jobs.WithUniqueReplace and
// similar options), or has a reference of its own (jobs.WithPayloadRef), stays with the
// job, whatever its size.
//
// Use it as the last codec.
func ClaimCheck(cfg ClaimCheckConfig) Codec {
	if guard.IsNil(cfg.Blobs) {
		field.Refuse("ClaimCheckConfig.Blobs", "is nil; OpenFileBlobs makes one of a directory")
	}
	sizeOr("ClaimCheckConfig.MinSize", &cfg.MinSize, defaultClaimMinSize)
	sizeOr("ClaimCheckConfig.MaxSize", &cfg.MaxSize, defaultMaxSize)
	return &claimCheck{cfg}
}

type claimCheck struct{ ClaimCheckConfig }

// Header returns the name of the codec's header.
func (c *claimCheck) Header() string { return claimHeader }

func (c *claimCheck) EncodePayload(ctx context.Context, job *broker.NewJob) error {
	data := job.Body.Payload
	sign(job, claimHeader, "")
	if len(data) > c.MaxSize {
		return fmt.Errorf("%w: the payload has %d bytes, ClaimCheckConfig.MaxSize is %d", jobs.ErrTooLarge, len(data), c.MaxSize)
	}
	if len(data) < c.MinSize || job.Meets() || job.Body.PayloadRef != "" {
		return nil // the blob of a job that replaces another one would be an orphan
	}
	key := blobKey(job.Queue, job.ID, rand.Text())
	if err := c.Blobs.Put(ctx, key, data); err != nil {
		return fmt.Errorf("the payload could not be put into the blob store, the job was not stored: %w", err)
	}
	job.Body.Payload, job.Body.PayloadRef = nil, key
	sign(job, claimHeader, claimOf(data).String())
	return nil
}

func (c *claimCheck) DecodePayload(ctx context.Context, job *jobs.Job) ([]byte, error) {
	header, ok := signed(job, claimHeader)
	if !ok {
		return job.Payload(), nil
	}
	want, ok := parseClaim(header)
	if !ok {
		return nil, dead(ErrTampered, "the header %s does not describe a payload", claimHeader)
	}
	if want.size > c.MaxSize {
		return nil, dead(jobs.ErrTooLarge, "the payload has %d bytes, ClaimCheckConfig.MaxSize is %d", want.size, c.MaxSize)
	}
	key := job.Record().PayloadRef
	if !isBlobKey(key) { // a store of blobs may make a path or a URL of it
		return nil, dead(ErrTampered, "the payload reference is not the key of a blob")
	}
	data, err := c.fetch(ctx, key, want.size)
	if err != nil {
		return nil, fmt.Errorf("the payload could not be fetched from the blob store: %w", err)
	}
	if claimOf(data) != want {
		return nil, dead(ErrTampered, "the blob is not the one that was put")
	}
	return data, nil
}

// fetch reads a blob, and one byte more than its size, to notice one that is longer.
func (c *claimCheck) fetch(ctx context.Context, key string, size int) (data []byte, err error) {
	blob, err := c.Blobs.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	data = make([]byte, size+1)
	n, err := io.ReadFull(blob, data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return data[:n], err
}

// claim is what a job stores about a payload in the blob store.
type claim struct {
	size int
	sum  [sha256.Size]byte
}

func claimOf(data []byte) claim { return claim{len(data), sha256.Sum256(data)} }

func (c claim) String() string { return fmt.Sprintf("%d sha256:%x", c.size, c.sum) }

func parseClaim(s string) (c claim, ok bool) {
	size, sum, ok := strings.Cut(s, " sha256:")
	if !ok {
		return claim{}, false
	}
	var err error
	if c.size, err = strconv.Atoi(size); err != nil || c.size < 0 {
		return claim{}, false
	}
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != len(c.sum) {
		return claim{}, false
	}
	return claim{c.size, [sha256.Size]byte(raw)}, true
}
