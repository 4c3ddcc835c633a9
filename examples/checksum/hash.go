package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seed81422ce9/jobs"
)

const (
	taskType  = "checksum"
	dirHeader = "dir" // the base of relative paths, for workers with another working directory
)

// result is the result of a job.
type result struct {
	SHA256 string `json:"sha256"` // in hexadecimal digits
	Bytes  int64  `json:"bytes"`
}

// hashFile is the handler: the payload is a path, in the file system's own bytes. A
// file that cannot be read now will not be readable soon, so there are no retries.
func hashFile(ctx context.Context, job *jobs.Job) error {
	path := string(job.Payload())
	if !filepath.IsAbs(path) {
		path = filepath.Join(job.Header(dirHeader), path)
	}
	r, err := sum(ctx, path)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: %w", jobs.SkipRetry, plain(err))
	}
	encoded, err := json.Marshal(r)
	job.SetResult(encoded)
	return err
}

var errNotRegular = errors.New("is no longer a regular file")

func sum(ctx context.Context, path string) (r result, err error) {
	// The file may have become a pipe since, and opening a pipe waits for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return r, errors.Join(err, errNotRegular)
	}
	h := sha256.New()
	r.Bytes, err = io.Copy(h, reader{ctx, f})
	r.SHA256 = hex.EncodeToString(h.Sum(nil))
	return r, err
}

// reader stops when its context ends, so that a shutdown need not wait for a large
// file.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
