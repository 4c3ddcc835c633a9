//go:build !unix || aix || solaris

package filebroker

import "os"

// unlock does nothing: closing the file ends its lock.
func unlock(*os.File) {}
