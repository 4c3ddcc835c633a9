package filebroker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// touched is the error of a transaction that was not begun, since somebody else has touched the file.
type touched struct{ text string }

func (t touched) Error() string { return t.text }

func (f *file) touched(how string) error {
	return touched{fmt.Sprintf("%s was open, and %s", f.path, how)}
}

// intact returns an error if the file is no longer the one that was opened. Without that, transactions would
// go to a file that nobody can open again, or spoil one that somebody has restored.
func (f *file) intact() error {
	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.touched("it was removed or renamed")
	case err != nil:
		return nil // who may not look cannot know
	case !os.SameFile(now, f.info):
		return f.touched("it was replaced by another file")
	case now.Size() < f.size:
		return f.touched("its end was cut off")
	}
	f.size = now.Size()
	return nil
}

// wroteNothing reports whether a transaction left the file as it was, so that it can be tried again. That is
// known of a write for which there was no room. It is not known of a sync, even if it fails for the same reason.
func wroteNothing(err error) bool {
	var of *os.PathError
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	return errors.As(err, &touched{}) || full && errors.As(err, &of) && of.Op == "write"
}

// remedy is the hint of errors after a write failed.
func remedy(err error) string {
	switch {
	case errors.As(err, &touched{}):
		return "put the file back, and the store works again; or end the program and start it again, to use what is there now"
	case wroteNothing(err):
		return "make room on the disk: then the store works again"
	}
	return "close the broker and open it again, when the disk can be written to"
}
