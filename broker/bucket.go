package broker

// Bucket counts the starts of a [Rate], in whole numbers, so that every store counts
// alike. Its zero value has all starts that a pause saves up. Times are microseconds.
//
// The n-th start after At is due at At + n·Per/Jobs. Used is how many were made since
// At; it is negative for starts that were saved up.
type Bucket struct {
	At   int64
	Used int64
}

// Free is how many jobs may start at now. When there is none, next is when the next
// may; else it is 0. It moves At along, which changes nothing in what is free.
func (b *Bucket) Free(r Rate, now int64) (free, next int64) {
	per, saved := DurationMicros(r.Per), r.Burst+1
	b.Used = min(b.Used, r.Jobs+saved) // it is more only where the rate was higher before
	if n := b.Used / r.Jobs; n > 0 {
		b.At, b.Used = b.At+n*per, b.Used-n*r.Jobs
	}
	// From where nothing more is saved up; beyond it the product below may not fit.
	full := (saved+max(b.Used, -saved))*per/r.Jobs + 1
	switch {
	case b.At == 0 && b.Used == 0, now-b.At >= full+per:
		b.At, b.Used = now, -saved
	case b.At-now > per: // the clock was set back
		b.At = now
	}
	if free = (max(now-b.At, 0)*r.Jobs)/per - b.Used; free >= saved {
		b.At, b.Used, free = now, -saved, saved
	}
	if free > 0 {
		return free, 0
	}
	return 0, b.At + ((b.Used+1)*per+r.Jobs-1)/r.Jobs
}

// Take counts n starts, at most as many as Free said.
func (b *Bucket) Take(n int64) { b.Used += n }
