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
	dirHeader = "dir" // where a relative path begins, for a worker with another working directory
)

// result is what a job leaves behind.
type result struct {
	SHA256 string `json:"sha256"` // in hexadecimal digits
	Bytes  int64  `json:"bytes"`
}

// hashFile is the handler: the payload is a path, in the file system's own
// bytes. A file that cannot be read now is not going to be readable soon, so
// nothing is tried again.
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

var errNotRegular = errors.New("is no regular file any more")

func sum(ctx context.Context, path string) (r result, err error) {
	// What was a file when it was found may be a pipe by now, and opening one waits for a writer.
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

// reader ends when its context does, so that a shutdown need not wait for the
// end of a large file.
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
