package payload

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"runtime"
	"strings"
	"time"
)

// FileBlobs keeps blobs as files of one directory, on the disk of one machine or
// on a file system that all producers and workers share. Several processes may
// use it at once. No key can lead out of the directory, not even through a
// symbolic link in it.
//
// A blob is written to a temporary file, flushed to the disk and renamed; then its
// directory is flushed. After any crash the blob is there completely or not at
// all. Its age is the time since the file's modification, by the clock of the
// machine that lists.
type FileBlobs struct{ root *os.Root }

const (
	blobShards   = 256
	blobSuffix   = ".blob"
	blobNameSize = 200            // bytes of one part of a path; the usual limit is 255
	blobTemp     = "tmp"          // directory of files that are being written
	blobTempAge  = 24 * time.Hour // the writer of an older temporary file has died
)

// OpenFileBlobs opens a directory as a blob store. If there is none, it creates
// one that only the user of this process can read (mode 0700). It removes
// temporary files that are a day old: their writers have died. Call Close when no
// other call is running.
func OpenFileBlobs(dir string) (*FileBlobs, error) {
	if dir == "" {
		return nil, errors.New("middleware: blobs: the directory is empty; name one, \".\" for the current one")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("middleware: blobs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("middleware: blobs: %w", err)
	}
	b := &FileBlobs{root}
	if err := b.prepare(); err != nil {
		return nil, fmt.Errorf("middleware: blobs: %w", errors.Join(err, root.Close()))
	}
	return b, nil
}

// prepare creates the directories of the first level, so that no Put has to make
// one of them durable.
func (b *FileBlobs) prepare() error {
	for i := range blobShards {
		if err := b.root.MkdirAll(fmt.Sprintf("%02x", i), 0o700); err != nil {
			return err
		}
	}
	if err := b.root.MkdirAll(blobTemp, 0o700); err != nil {
		return err
	}
	left, err := fs.ReadDir(b.root.FS(), blobTemp)
	if err != nil {
		return err
	}
	for _, entry := range left {
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) >= blobTempAge {
			_ = b.root.Remove(path.Join(blobTemp, entry.Name())) // another process may have removed it
		}
	}
	return b.sync(".")
}

// Close closes the directory.
func (b *FileBlobs) Close() error { return b.root.Close() }

// Put stores a blob; see Blobs.
func (b *FileBlobs) Put(ctx context.Context, key string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	temp := path.Join(blobTemp, rand.Text())
	if err := b.write(temp, data); err != nil {
		return errors.Join(err, b.remove(temp))
	}
	place := blobPath(key)
	if err := b.move(temp, place); err != nil {
		return errors.Join(err, b.remove(temp))
	}
	for dir := path.Dir(place); dir != "."; dir = path.Dir(dir) {
		if err := b.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// move makes the directory of a place and moves a file there, again if a Delete has removed the directory meanwhile.
func (b *FileBlobs) move(temp, place string) (err error) {
	for range 10 {
		if err = b.root.MkdirAll(path.Dir(place), 0o700); err == nil {
			err = b.root.Rename(temp, place)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

func (b *FileBlobs) write(name string, data []byte) error {
	f, err := b.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// sync makes the entries of a directory durable. Windows does that by itself and
// cannot sync a directory.
func (b *FileBlobs) sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := b.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get opens a blob; see Blobs.
func (b *FileBlobs) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := b.root.Open(blobPath(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %.300q", ErrNoBlob, key)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Delete removes a blob; see Blobs.
func (b *FileBlobs) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	place := blobPath(key)
	if err := b.remove(place); err != nil {
		return err
	}
	for dir := path.Dir(place); path.Dir(dir) != "."; dir = path.Dir(dir) { // a long key has directories of its own
		if b.root.Remove(dir) != nil {
			break // other blobs are in it
		}
	}
	return nil
}

func (b *FileBlobs) remove(name string) error {
	err := b.root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// List yields the keys of old blobs; see Blobs.
func (b *FileBlobs) List(ctx context.Context, age time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := fs.WalkDir(b.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, fs.ErrNotExist):
				return nil // it was deleted meanwhile
			case err != nil:
				return err
			}
			key, ok := keyOfBlob(name)
			if !ok || !entry.Type().IsRegular() {
				return nil
			}
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if time.Since(info.ModTime()) >= age && !yield(key, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield("", err)
		}
	}
}

// blobPath returns the path of a blob in the directory. The key is escaped, so that
// it cannot lead elsewhere, and split into parts short enough for any file system.
// The first part spreads the blobs over directories.
func blobPath(key string) string {
	sum := sha256.Sum256([]byte(key))
	place := fmt.Sprintf("%02x", sum[0]) + "/"
	name := url.QueryEscape(key)
	for len(name) > blobNameSize {
		place += name[:blobNameSize] + "/"
		name = name[blobNameSize:]
	}
	return place + name + blobSuffix
}

// keyOfBlob is the inverse of blobPath.
func keyOfBlob(place string) (key string, ok bool) {
	_, name, ok := strings.Cut(place, "/")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, blobSuffix)
	if !ok {
		return "", false
	}
	key, err := url.QueryUnescape(strings.ReplaceAll(name, "/", ""))
	return key, err == nil && blobPath(key) == place
}
