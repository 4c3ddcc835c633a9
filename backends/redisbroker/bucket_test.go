package redisbroker

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The scripts count rates as broker.Bucket does, to the microsecond and the job, up to
// the largest rates that a policy may have.
func TestBucket_ScriptsCountAsTheBrokerDoes(t *testing.T) {
	t.Parallel()
	part, err := expand("lib/bucket.lua", make(map[string]bool))
	if err != nil {
		t.Fatal(err)
	}
	source := `local now = tonumber(ARGV[1])
local function int(n) return string.format('%.0f', n) end
` + part + `
local b = read_bucket(ARGV[2])
local free, till = bucket_free(b, tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))
return {int(free), int(till or 0), bucket_text(b)}`
	c := client(t)
	r := rand.New(rand.NewPCG(1, 2))
	const most = 1 << 53
	rates := 0
	for range 200 {
		rate := broker.Rate{Per: time.Duration(1+r.Int64N(1<<r.IntN(51))) * time.Microsecond}
		per := rate.Per.Microseconds()
		rate.Jobs = 1 + r.Int64N(max(1, min(most/per-3, 1<<r.IntN(52))))
		rate.Burst = r.Int64N(max(1, min(most/per-rate.Jobs-2, 1<<r.IntN(52))))
		if err := (&broker.PolicyRequest{Queue: "q", Rate: &rate}).Check(broker.Limits{}); err != nil {
			continue
		}
		rates++
		var b broker.Bucket
		now, stored := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), ""
		for range 20 {
			now += r.Int64N(1 + 2*(per/rate.Jobs+1))
			switch r.IntN(20) {
			case 0:
				now += r.Int64N(3*per + 1)
			case 1:
				now -= r.Int64N(3*per + 1)
			}
			at := b
			free, next := b.Free(rate, now)
			got, err := c.Eval(t.Context(), source, nil, now, stored, rate.Jobs, per, rate.Burst).StringSlice()
			if err != nil {
				t.Fatal(err)
			}
			text := strconv.FormatInt(b.At, 10) + " " + strconv.FormatInt(b.Used, 10)
			if got[0] != strconv.FormatInt(free, 10) || got[1] != strconv.FormatInt(next, 10) || got[2] != text {
				t.Fatalf("%+v of %+v at %d: the script says %v, want %d free, the next at %d, and %q", rate, at, now, got, free, next, text)
			}
			b.Take(r.Int64N(free + 1))
			stored = strconv.FormatInt(b.At, 10) + " " + strconv.FormatInt(b.Used, 10)
		}
	}
	if rates < 100 {
		t.Errorf("only %d rates were tried", rates)
	}
}
