package engine

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestClaimSize(t *testing.T) {
	t.Parallel()
	var z claimSize
	z.init()
	answered := func(jobs, size int, took time.Duration) { z.answered(z.bytes, jobs, jobs*size, took) }
	check := func(when string, jobs, bytes int) {
		t.Helper()
		if z.jobs != jobs || z.bytes != bytes {
			t.Errorf("%s: at most %d jobs and %d bytes, want %d and %d", when, z.jobs, z.bytes, jobs, bytes)
		}
	}
	check("at first", broker.MaxClaim, 1<<20)
	answered(3, 400_000, quickClaim-1)
	check("after a quick answer that its bytes ended", broker.MaxClaim, 2<<20)
	answered(3, 400_000, quickClaim-1)
	check("after a quick answer of fewer bytes", broker.MaxClaim, 2<<20)
	answered(6, 400_000, quickClaim)
	check("after an answer that was not quick", broker.MaxClaim, 2<<20)
	if n := z.most(100); n < 6 || n > 12 {
		t.Errorf("asks for %d jobs of 400,000 bytes within 2 MiB, want 6 to 12", n)
	}
	answered(6, 400_000, slowClaim+1)
	check("after a slow answer", broker.MaxClaim, 1<<20)
	z.lost(100)
	check("after a loss", 50, 1<<19)
	z.lost(100)
	check("after another, asked before", 25, 1<<18)
	if n := z.most(100); n != 1 {
		t.Errorf("asks for %d jobs of 400,000 bytes within 256 KiB, want 1", n)
	}
	for range 20 {
		z.lost(1)
	}
	check("after many", 1, leastClaimBytes)
	for range 10 {
		answered(0, 0, 0)
	}
	check("after empty answers", broker.MaxClaim, leastClaimBytes)
	for range 20 {
		answered(20, 400_000, 0)
	}
	check("after many quick ones", broker.MaxClaim, mostClaimBytes)
}
