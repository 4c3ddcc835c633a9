//go:build unix && !aix && !solaris

package filebroker

import (
	"os"
	"syscall"
)

// unlock ends the lock of a file. A panic in bbolt leaves the file mapped, and the lock
// would last as long as the mapping.
func unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
