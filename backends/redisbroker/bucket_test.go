package redisbroker

import (
	"cmp"
	"math/rand/v2"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The scripts count rates exactly as broker.Bucket does, up to the largest rates that a
// policy may have.
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
	valid := func(rate broker.Rate) bool {
		return (&broker.PolicyRequest{Queue: "q", Rate: &rate}).Check(broker.Limits{}) == nil
	}
	var rates []broker.Rate
	for range 200 {
		rate := broker.Rate{Per: time.Duration(1+r.Int64N(1<<r.IntN(51))) * time.Microsecond}
		per := rate.Per.Microseconds()
		rate.Jobs = 1 + r.Int64N(max(1, min(most/per-3, 1<<r.IntN(52))))
		rate.Burst = r.Int64N(max(1, min(most/per-rate.Jobs-2, 1<<r.IntN(52))))
		if valid(rate) {
			rates = append(rates, rate)
		}
	}
	if len(rates) < 100 {
		t.Errorf("only %d rates are valid", len(rates))
	}
	// The largest valid rates: one more job, or one more of the burst, is refused.
	for _, per := range []time.Duration{1, 2, 3, 999_999, 1_000_000, 1 << 26, 86_400_000_000} {
		for _, shape := range []func(n int64) broker.Rate{
			func(n int64) broker.Rate { return broker.Rate{Jobs: 1 + n, Per: per * time.Microsecond} },
			func(n int64) broker.Rate { return broker.Rate{Jobs: 1, Burst: n, Per: per * time.Microsecond} },
			func(n int64) broker.Rate {
				return broker.Rate{Jobs: 1 + n/2, Burst: n - n/2, Per: per * time.Microsecond}
			},
		} {
			n := int64(sort.Search(most, func(n int) bool { return !valid(shape(int64(n))) })) - 1
			if largest := shape(n); n < 1 || (largest.Jobs+largest.Burst)*int64(per) < most/4 {
				t.Errorf("the largest valid rate of this shape is %+v, which is not near 2^53", largest)
			}
			rates = append(rates, shape(n))
		}
	}
	for _, rate := range rates {
		per := rate.Per.Microseconds()
		var b broker.Bucket
		now, opens, stored := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), int64(0), ""
		for range 20 {
			now += r.Int64N(1 + 2*(per/rate.Jobs+1))
			switch r.IntN(10) {
			case 0:
				now += r.Int64N(3*per + 1)
			case 1:
				now -= r.Int64N(3*per + 1)
			case 2, 3:
				now = cmp.Or(opens, now) // when the next job may start by the last answer; and just before
			case 4, 5:
				now = cmp.Or(opens, now+1) - 1
			case 6:
				now = max(now, b.At+per-1+r.Int64N(3)) // where a bucket carries over to the next period
			case 7: // when one more is free, and just before
				k := r.Int64N(3*rate.Jobs + 1)
				now = max(now, b.At+(k*per+rate.Jobs-1)/rate.Jobs-r.Int64N(2))
			}
			now = max(1, min(now, most-1-3*per)) // times, too, are below 2^53 µs, which is in the year 2255
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
			opens = next
			if r.IntN(2) == 0 {
				free = r.Int64N(free + 1)
			}
			b.Take(free)
			stored = strconv.FormatInt(b.At, 10) + " " + strconv.FormatInt(b.Used, 10)
		}
	}
}
