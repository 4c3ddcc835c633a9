package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// finding is an entry other than a regular file.
type finding struct {
	path string
	err  error // why it cannot be read; nil when it is left out on purpose
	kind string
}

// walk calls file for every regular file at or below root, in order of path within each
// directory, and other for everything else. Symbolic links are not followed, except
// root itself.
func walk(ctx context.Context, root string, file func(path string) error, other func(finding)) error {
	target, err := filepath.EvalSymlinks(root)
	if err != nil {
		// The error's text repeats the path.
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return fmt.Errorf("%s: %w", root, err)
	}
	return filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rest, _ := filepath.Rel(target, path)
		path = filepath.Join(root, rest)
		switch {
		case err != nil:
			other(finding{path: path, err: plain(err)})
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			other(finding{path: path, kind: kindOf(d.Type())})
			return nil
		}
		return file(path)
	})
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// plain strips the operation and the path, which the reader sees anyway, from an error
// of the file system.
func plain(err error) error {
	if no := syscall.Errno(0); errors.As(err, &no) {
		return no
	}
	return err
}
