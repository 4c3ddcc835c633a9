package report

import (
	"math"
	"slices"
)

// Sample summarises the rounds of a measurement.
type Sample struct {
	Median, Min, Max float64
	Rounds           int
}

// Of summarises values; it panics without any.
func Of(values []float64) Sample {
	s := slices.Sorted(slices.Values(values))
	mid := len(s) / 2
	median := s[mid]
	if len(s)%2 == 0 {
		median = (s[mid-1] + s[mid]) / 2
	}
	return Sample{Median: median, Min: s[0], Max: s[len(s)-1], Rounds: len(s)}
}

// NoisySpread is the spread from which a figure counts as noisy.
const NoisySpread = 0.25

// Spread returns the difference of the highest and the lowest value, divided by the
// median.
func (s Sample) Spread() float64 {
	if s.Max == s.Min {
		return 0
	}
	if s.Median == 0 {
		return math.Inf(1)
	}
	return (s.Max - s.Min) / math.Abs(s.Median)
}

// Noisy reports whether the rounds differ too much for the median to say more
// than the order of magnitude.
func (s Sample) Noisy() bool { return s.Spread() > NoisySpread }

// Ratios divides round by round, so that a slowdown of both in one round cancels out.
// Rounds that only one of them has are left out.
func Ratios(ours, theirs map[int]float64) []float64 {
	var ratios []float64
	for round, v := range ours {
		if base, ok := theirs[round]; ok && base != 0 {
			ratios = append(ratios, v/base)
		}
	}
	return ratios
}

// Quantile returns the q-quantile of values, which must be sorted and not empty.
func Quantile(sorted []float64, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
