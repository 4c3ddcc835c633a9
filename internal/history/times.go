package history

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// Times counts durations in buckets, four for each doubling, so that Quantile is within 12 % of a
// measured duration. Durations below 64 µs count as 64 µs, those above 101 days as 101 days. A nil
// Times is empty.
type Times []int64

const (
	leastExp = 6  // 2⁶ µs: a handler that does nothing takes no longer
	endExp   = 43 // 2⁴³ µs are 101 days: few jobs wait longer
	parts    = 2  // as an exponent: four buckets of a doubling, each 14 to 25 % wide
	buckets  = 1 + (endExp-leastExp)<<parts
)

// Add counts a duration. Unlike Plus and Since, it changes t.
func (t *Times) Add(d time.Duration) {
	if *t == nil {
		*t = make(Times, buckets)
	}
	(*t)[bucketOf(d)]++
}

func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	exp := bits.Len64(us) - 1
	switch {
	case exp < leastExp:
		return 0
	case exp >= endExp:
		return buckets - 1
	}
	return 1 + (exp-leastExp)<<parts + int(us>>(exp-parts))&(1<<parts-1)
}

// bound returns the lower bound of a bucket in microseconds, which is the upper bound of the one
// before.
func bound(bucket int) float64 {
	exp, part := leastExp+(bucket-1)>>parts, (bucket-1)&(1<<parts-1)
	return math.Ldexp(1+float64(part)/(1<<parts), exp)
}

// Count returns how many durations were counted.
func (t Times) Count() (n int64) {
	for _, c := range t {
		n += c
	}
	return n
}

// Quantile returns the duration that the given share of all durations did not exceed. share is from 0 to
// 1: 0.5 gives the median. Quantile returns zero if no duration was counted.
func (t Times) Quantile(share float64) time.Duration {
	left := max(1, int64(math.Ceil(share*float64(t.Count()))))
	for i, n := range t {
		if left -= n; left > 0 {
			continue
		}
		us := bound(1)
		if i > 0 {
			low, high := bound(i), bound(i+1)
			us = 2 * low * high / (low + high) // differs from low and from high by the same ratio
		}
		return time.Duration(us * float64(time.Microsecond)).Round(time.Microsecond)
	}
	return 0
}

// Plus returns the sum of t and u.
func (t Times) Plus(u Times) Times {
	switch {
	case len(u) == 0:
		return t
	case len(t) == 0:
		return u
	}
	sum := make(Times, buckets)
	for i := range sum {
		sum[i] = t[i] + u[i]
	}
	return sum
}

// Since returns what was counted since an earlier state. If the counts were reset since then, it
// returns all of them.
func (t Times) Since(earlier Times) Times {
	if len(earlier) == 0 || t.Count() < earlier.Count() {
		return t
	}
	d := make(Times, buckets)
	for i := range d {
		d[i] = max(0, t[i]-earlier[i])
	}
	return d
}

// append appends the counts as whole numbers: the number of buckets in use, and for each its distance
// from the one before it and its count.
func (t Times) append(numbers []int64) []int64 {
	at, last := len(numbers), -1
	numbers = append(numbers, 0)
	for i, n := range t {
		if n != 0 {
			numbers = append(numbers, int64(i-last), n)
			numbers[at]++
			last = i
		}
	}
	return numbers
}

// parseTimes is the inverse of append. It returns the numbers that follow.
func parseTimes(numbers []int64) (t Times, rest []int64, err error) {
	if len(numbers) == 0 {
		return nil, nil, errMalformed
	}
	n := numbers[0]
	if n < 0 || n > buckets || int(2*n) > len(numbers)-1 {
		return nil, nil, errMalformed
	}
	pairs, rest := numbers[1:1+2*n], numbers[1+2*n:]
	for at := -1; len(pairs) > 0; pairs = pairs[2:] {
		if pairs[0] < 1 || pairs[0] >= buckets || at+int(pairs[0]) >= buckets {
			return nil, nil, errMalformed
		}
		if t == nil {
			t = make(Times, buckets)
		}
		at += int(pairs[0])
		t[at] = pairs[1]
	}
	return t, rest, nil
}

// Latency holds how long jobs waited for their first run, and how long runs took. Each may hold fewer
// durations than the totals say: a server that crashed did not post its last minute.
type Latency struct {
	WaitTimes, RunTimes Times
}

// Plus returns the sum of l and m.
func (l Latency) Plus(m Latency) Latency {
	return Latency{l.WaitTimes.Plus(m.WaitTimes), l.RunTimes.Plus(m.RunTimes)}
}

// Since returns what was counted since an earlier state.
func (l Latency) Since(earlier Latency) Latency {
	return Latency{l.WaitTimes.Since(earlier.WaitTimes), l.RunTimes.Since(earlier.RunTimes)}
}

func (l Latency) empty() bool { return l.WaitTimes.Count()+l.RunTimes.Count() == 0 }

func (l Latency) append(numbers []int64) []int64 {
	return l.RunTimes.append(l.WaitTimes.append(numbers))
}

func parseLatency(numbers []int64) (l Latency, err error) {
	if l.WaitTimes, numbers, err = parseTimes(numbers); err == nil {
		l.RunTimes, _, err = parseTimes(numbers)
	}
	return l, err
}

// appendNumbers appends the number of values, and the values.
func appendNumbers(b []byte, numbers []int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(numbers)))
	for _, n := range numbers {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// parseNumbers is the inverse of appendNumbers. It returns the bytes that follow.
func parseNumbers(b []byte) (numbers []int64, rest []byte, err error) {
	many, n := binary.Uvarint(b)
	if n <= 0 || many > 1000 { // more than two for each bucket of both Times, and the other numbers of a point
		return nil, nil, errMalformed
	}
	b = b[n:]
	numbers = make([]int64, many)
	for i := range numbers {
		if numbers[i], n = binary.Varint(b); n <= 0 {
			return nil, nil, errMalformed
		}
		b = b[n:]
	}
	return numbers, b, nil
}
