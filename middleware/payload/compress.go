package payload

import (
	"context"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
)

// CompressConfig configures Compress. The zero value is ready to use.
type CompressConfig struct {
	// MinSize is the size from which payloads are compressed, in bytes. Zero
	// means 1 KiB.
	MinSize int
	// MaxSize is the size of the largest uncompressed payload, in bytes: Enqueue refuses a larger one,
	// and a job whose payload would become larger when it is decompressed is dead. It bounds the memory
	// of one decompression. Zero means 16 MiB. Processes that share queues should agree.
	MaxSize int
}

const (
	compressionHeader      = coding.HeaderCompression
	zstdEncoding           = "zstd"
	defaultCompressMinSize = 1 << 10
	defaultMaxSize         = 16 << 20
)

// Compress is the codec that compresses payloads with zstd if that makes them
// smaller. Jobs with a compressed payload have the header jobs-compression. A job
// whose payload cannot be decompressed is dead (ErrTampered, ErrTooLarge); one
// with a compression that this release does not know is snoozed.
func Compress(cfg CompressConfig) Codec {
	sizeOr("CompressConfig.MinSize", &cfg.MinSize, defaultCompressMinSize)
	sizeOr("CompressConfig.MaxSize", &cfg.MaxSize, defaultMaxSize)
	c := &compression{min: cfg.MinSize, max: cfg.MaxSize}
	var err error
	// With a single segment the window, which the decoder bounds too, is no larger
	// than the payload.
	if c.encoder, err = zstd.NewWriter(nil, zstd.WithSingleSegment(true)); err == nil {
		c.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0),
			zstd.WithDecoderMaxMemory(max(uint64(c.max), zstd.MinWindowSize)))
	}
	if err != nil {
		panic("middleware: zstd: " + err.Error()) // the options above are wrong
	}
	return c
}

// compression uses only the library's functions for whole buffers, which need
// neither goroutines nor Close.
type compression struct {
	min, max int
	encoder  *zstd.Encoder
	decoder  *zstd.Decoder
}

// Header returns the name of the codec's header.
func (c *compression) Header() string { return compressionHeader }

func (c *compression) EncodePayload(_ context.Context, job *broker.NewJob) error {
	plain := job.Body.Payload
	sign(job, compressionHeader, "")
	if len(plain) > c.max {
		return fmt.Errorf("%w: the payload has %d bytes, CompressConfig.MaxSize is %d; store it elsewhere", jobs.ErrTooLarge,
			len(plain), c.max)
	}
	if len(plain) < c.min {
		return nil
	}
	if packed := c.encoder.EncodeAll(plain, nil); len(packed) < len(plain) {
		job.Body.Payload = packed
		sign(job, compressionHeader, zstdEncoding)
	}
	return nil
}

func (c *compression) DecodePayload(_ context.Context, job *jobs.Job) ([]byte, error) {
	encoding, ok := signed(job, compressionHeader)
	if !ok {
		return job.Payload(), nil
	}
	if encoding != zstdEncoding {
		return nil, putOff(job, fmt.Errorf("the compression %.20q is unknown to this program", encoding))
	}
	plain, err := c.decoder.DecodeAll(job.Payload(), nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || len(plain) > c.max:
		return nil, dead(jobs.ErrTooLarge, "decompressed, the payload has more than %d bytes", c.max)
	case err != nil:
		return nil, dead(ErrTampered, "zstd: %v", err)
	}
	return plain, nil
}
