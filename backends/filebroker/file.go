package filebroker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// file is a file that this process has open, with its store in memory.
type file struct {
	writer
	db    *bolt.DB
	store *membroker.Store
	path  string // absolute
	info  os.FileInfo
	size  int64 // of the file; it never shrinks
	last  int   // the number of its last transaction
	users int   // the number of handles; 0 while it is being closed; guarded by opened

	closed   chan struct{} // closed once the file is
	closeErr error         // set before that
}

// opened are the files that this process has open, or is closing.
var opened struct {
	sync.Mutex
	files []*file
}

// enter counts one more handle of a file, and opens the file for the first one.
func enter(path string, noSync bool) (*file, error) {
	opened.Lock()
	defer opened.Unlock()
	for f := find(path); f != nil; f = find(path) {
		if f.users > 0 {
			f.users++
			return f, nil
		}
		opened.Unlock()
		err := f.awaitClose()
		opened.Lock()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("%w: this process is still closing %s; open it again later", broker.ErrUnavailable, path)
		}
	}
	f, err := openFile(path, noSync)
	if err != nil {
		return nil, err
	}
	f.users = 1
	opened.files = append(opened.files, f)
	return f, nil
}

// find returns the open file with a path, or nil.
func find(path string) *file {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	for _, f := range opened.files {
		if os.SameFile(f.info, info) {
			return f
		}
	}
	return nil
}

// leave counts one handle less, and closes the file after the last one.
func (f *file) leave() error {
	opened.Lock()
	f.users--
	users := f.users
	opened.Unlock()
	if users > 0 {
		return nil
	}
	go f.close()
	return f.awaitClose()
}

// close waits for the disk and for backups, and closes the file.
func (f *file) close() {
	_ = f.synced(context.Background()) // an error was answered to the calls that it concerns
	f.closeErr = f.db.Close()
	opened.Lock()
	opened.files = slices.DeleteFunc(opened.files, func(o *file) bool { return o == f })
	opened.Unlock()
	close(f.closed)
}

// awaitClose returns the error of closing the file, or after MaxClose that it still goes on.
func (f *file) awaitClose() error {
	select {
	case <-f.closed:
		return f.closeErr
	case <-time.After(broker.MaxClose):
		return fmt.Errorf("a write or a backup is still under way; the file is closed after it: %w", context.DeadlineExceeded)
	}
}

// layout is the version of the file's layout. It is stored in a bucket of its own.
const layout = "1"

var (
	layoutPart = []byte("github.com/seed81422ce9/jobs")
	layoutKey  = []byte("layout")
)

// openFile opens and reads a file that is not open in this process. Damage in the file
// may cause a panic in bbolt, or a fault in the mapped memory.
func openFile(path string, noSync bool) (f *file, err error) {
	var handle *os.File
	_, missing := os.Stat(path)
	made := errors.Is(missing, fs.ErrNotExist)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, damaged(path, p)
		}
		if err != nil && handle != nil {
			unlock(handle)
			_ = handle.Close()
			if made {
				_ = os.Remove(path) // a full disk may have cut it off, and it would be refused as damaged
			}
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout:      time.Nanosecond, // try to lock the file only once
		FreelistType: bolt.FreelistMapType,
		NoSync:       noSync,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			handle, err = os.OpenFile(name, flag, mode)
			return handle, err
		},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		made = false
		return nil, fmt.Errorf("%w: another process has %s open, and only one can; stop that process, or use its API", broker.ErrUnavailable,
			path)
	case errors.As(err, new(*os.PathError)):
		return nil, err
	case err != nil:
		return nil, damaged(path, err)
	}
	f = &file{db: db, closed: make(chan struct{})}
	f.commit = f.put
	if f.path, err = filepath.Abs(path); err == nil {
		f.info, err = handle.Stat()
	}
	if err == nil {
		f.size = f.info.Size()
		err = f.prepare(path)
	}
	if err == nil {
		f.store, err = membroker.OpenJournal(f)
	}
	if err == nil {
		err = f.check(path)
	}
	if err == nil && missing != nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return f, nil
}

func damaged(path string, what any) error {
	return fmt.Errorf("%w: %s is damaged, or not a file of jobs: %v; replace it by a backup", broker.ErrMalformed, path, what)
}

// syncDir makes the name of a new file survive a power cut. Windows has no such call.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// prepare makes the buckets of a new file, and refuses a file of another program.
func (f *file) prepare(path string) error {
	whole, own, foreign := true, "", false
	err := f.db.View(func(tx *bolt.Tx) error {
		if whole = tx.Size() <= f.info.Size(); !whole {
			return nil
		}
		if b := tx.Bucket(layoutPart); b != nil {
			own = string(b.Get(layoutKey))
		}
		return tx.ForEach(func([]byte, *bolt.Bucket) error {
			foreign = true
			return nil
		})
	})
	switch {
	case err != nil:
		return err
	case !whole:
		return damaged(path, "its end is missing")
	case own == layout:
		return nil
	case own != "":
		return fmt.Errorf("%w: %s has the layout %s, this program reads %s", broker.ErrNewerForm, path, own, layout)
	case foreign:
		return damaged(path, "it has records of another program")
	}
	return f.db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(layoutPart)
		if err == nil {
			err = b.Put(layoutKey, []byte(layout))
		}
		for k := journal.Kind(1); k <= journal.Kinds && err == nil; k++ {
			_, err = tx.CreateBucket([]byte(k.String()))
		}
		return err
	})
}

// Load reads all records.
func (f *file) Load(read func(journal.Record) error) error {
	return f.db.View(func(tx *bolt.Tx) error {
		for k := journal.Kind(1); k <= journal.Kinds; k++ {
			part := tx.Bucket([]byte(k.String()))
			if part == nil {
				return damaged(f.db.Path(), fmt.Sprintf("it has no %v", k))
			}
			err := part.ForEach(func(key, value []byte) error {
				value, ok := unsealed(k, key, value)
				if !ok || part.Get(key) == nil { // Get also reads the keys of inner pages
					return damaged(f.db.Path(), fmt.Sprintf("a record of the %v, %.64q, is not what was written", k, key))
				}
				return read(journal.Record{Kind: k, Key: key, Value: value})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// check looks for pages in use that are listed as free: bbolt would overwrite them. Call it
// after Load, which reads all pages in use and survives a fault. bbolt checks in a goroutine
// of its own, where a fault would end the process.
func (f *file) check(path string) error {
	return f.db.View(func(tx *bolt.Tx) error {
		f.last = tx.ID()
		for id := 0; int64(id)*int64(f.db.Info().PageSize) < tx.Size(); id++ {
			page, err := tx.Page(id)
			if err != nil {
				return err
			}
			if page.Type != "free" {
				id += page.OverflowCount
			}
			if int64(id)*int64(f.db.Info().PageSize) >= tx.Size() {
				return damaged(path, "a page has no end")
			}
		}
		var found error
		for err := range tx.Check(bolt.WithKVStringer(unread{})) {
			found = cmp.Or(found, damaged(path, err))
		}
		return found
	})
}

// unread keeps keys out of bbolt's messages: in a damaged file their lengths may be wrong.
type unread struct{}

func (unread) KeyToString([]byte) string   { return "" }
func (unread) ValueToString([]byte) string { return "" }

// put writes records to the disk in one transaction.
func (f *file) put(changed []journal.Record) error {
	if err := f.intact(); err != nil {
		return err
	}
	slices.SortStableFunc(changed, func(a, b journal.Record) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.Key, b.Key))
	})
	err := f.db.Update(func(tx *bolt.Tx) error {
		if tx.ID() != f.last+1 {
			return f.touched("another program has written to it")
		}
		return put(tx, changed)
	})
	if err == nil {
		f.last++
	}
	return err
}

func put(tx *bolt.Tx, changed []journal.Record) (err error) {
	for i, r := range changed {
		if i+1 < len(changed) && r.Kind == changed[i+1].Kind && bytes.Equal(r.Key, changed[i+1].Key) {
			continue // a later step changed the same record
		}
		if part := tx.Bucket([]byte(r.Kind.String())); r.Value == nil {
			err = part.Delete(r.Key)
		} else {
			err = part.Put(r.Key, sealed(r))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sealed returns a checksum of a record, followed by the record's value. It is needed because
// bbolt does not check the content of its pages.
func sealed(r journal.Record) []byte {
	p := make([]byte, sumSize, sumSize+len(r.Value))
	binary.BigEndian.PutUint32(p, sum(r.Kind, r.Key, r.Value))
	return append(p, r.Value...)
}

const sumSize = 4 // bytes of a CRC-32

var castagnoli = crc32.MakeTable(crc32.Castagnoli) // this CRC, since processors compute it in hardware

func sum(k journal.Kind, key, value []byte) uint32 {
	s := crc32.Update(uint32(k), castagnoli, key)
	return crc32.Update(s, castagnoli, value)
}

// unsealed reverses sealed, and reports whether the checksum is right.
func unsealed(k journal.Kind, key, p []byte) (value []byte, ok bool) {
	if len(p) < sumSize {
		return nil, false
	}
	value = p[sumSize:]
	return value, binary.BigEndian.Uint32(p) == sum(k, key, value)
}
