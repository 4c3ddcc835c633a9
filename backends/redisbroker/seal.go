package redisbroker

import (
	"hash/crc32"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// Lua stores each text only once, and finds it by a hash of about thirty of its bytes,
// which always include the last one. Heads that differ in few bytes, such as those of
// jobs that failed in the same way, can be equal in all thirty. A script that handles a
// thousand of them then compares each with all others. So a stored head that has a tail
// ends in one more byte, which depends on the whole tail.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendTail appends the stored form of a tail.
func appendTail(p []byte, h *broker.Head) []byte {
	from := len(p)
	if p = broker.AppendTail(p, h); len(p) > from {
		p = append(p, byte(crc32.Checksum(p[from:], castagnoli)))
	}
	return p
}

// unsealed returns a stored head as package broker reads it.
func unsealed(head string) string {
	if i := strings.IndexByte(head, ';'); i >= 0 && i+1 < len(head) {
		return head[:len(head)-1]
	}
	return head
}
