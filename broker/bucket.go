package broker

// Bucket counts the starts of a [Rate], in whole numbers, so that every store counts
// alike. Its zero value allows a full burst. Times are microseconds.
//
// The n-th start after At is due at At + n·Per/Jobs. Used is the number of starts since
// At; it is negative while starts are saved up.
type Bucket struct {
	At   int64
	Used int64
}

// Free returns how many jobs may start at now. If none may, next is when the next one
// may start; otherwise next is 0. Free advances At, which does not change later results, so a store
// need not keep it if none starts. If the clock was set back by more than Per, one may start at once.
func (b *Bucket) Free(r Rate, now int64) (free, next int64) {
	per, saved := DurationMicros(r.Per), r.Burst+1
	b.Used = min(b.Used, r.Jobs+saved) // it is higher only after the rate was lowered
	if n := b.Used / r.Jobs; n > 0 {
		b.At, b.Used = b.At+n*per, b.Used-n*r.Jobs
	}
	// After this time nothing more is saved up, and the product below may overflow.
	full := (saved+max(b.Used, -saved))*per/r.Jobs + 1
	switch {
	case b.At == 0 && b.Used == 0, now-b.At >= full+per:
		b.At, b.Used = now, -saved
	case b.At-now > per: // the clock was set back
		b.At, b.Used = now, min(b.Used, -1)
	}
	if free = (max(now-b.At, 0)*r.Jobs)/per - b.Used; free >= saved {
		b.At, b.Used, free = now, -saved, saved
	}
	if free > 0 {
		return free, 0
	}
	return 0, b.At + ((b.Used+1)*per+r.Jobs-1)/r.Jobs
}

// Take counts n starts, at most as many as Free returned.
func (b *Bucket) Take(n int64) { b.Used += n }
