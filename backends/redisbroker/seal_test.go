package redisbroker

import (
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// luaHash returns the hash by which Lua 5.1 finds a string in its string table.
func luaHash(s string) uint32 {
	h, step := uint32(len(s)), len(s)>>5+1
	for i := len(s); i >= step; i -= step {
		h ^= h<<5 + h>>2 + uint32(s[i-1])
	}
	return h
}

// A thousand jobs fail with the same error within a second. Whatever its length, few of
// their heads may have the same hash in Lua.
func TestSeal_HeadsOfJobsThatFailAlikeHaveManyHashes(t *testing.T) {
	t.Parallel()
	for size := range 400 {
		hashes := make(map[uint32]int)
		most := 0
		for i := range 1000 {
			h := broker.Head{Epoch: 1, Deliveries: 1, Failures: 1, Errors: broker.ErrorLog{Entries: []broker.Failure{{
				At: time.UnixMicro(1_800_000_000_000_000 + int64(i)*997).UTC(), Message: strings.Repeat("e", size), Class: "retryable", Worker: "w"}}}}
			head := "1,4,0," + string(appendTail(numbers(nil, 1, 1, 0, 0), &h))
			hash := luaHash(head)
			hashes[hash]++
			most = max(most, hashes[hash])
			if _, got, err := broker.ParseHead([]byte(unsealed(head))); err != nil || got.Errors.Last() != h.Errors.Last() {
				t.Fatalf("a head with an error of %d bytes is read as %+v, %v", size, got, err)
			}
		}
		if most > 50 {
			t.Errorf("with an error of %d bytes %d heads of a thousand have the same hash", size, most)
		}
	}
}
