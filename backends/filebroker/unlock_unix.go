//go:build unix && !aix && !solaris

package filebroker

import (
	"os"
	"syscall"
)

// unlock ends the lock of a file that bbolt, when it panics, leaves mapped: the lock
// would last as long as the mapping.
func unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
