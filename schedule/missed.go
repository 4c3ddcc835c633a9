package schedule

import "sync/atomic"

// tally counts, by reason, the ticks that servers of this process have found missed. Its numbers only grow.
type tally struct{ tooLate, tooMany, overlapped, duplicate, refused atomic.Int64 }

// add adds what a schedule's counts have gained.
func (t *tally) add(before, after Counts) {
	t.tooLate.Add(after.TooLate - before.TooLate)
	t.tooMany.Add(after.TooMany - before.TooMany)
	t.overlapped.Add(after.Overlapped - before.Overlapped)
	t.duplicate.Add(after.Duplicate - before.Duplicate)
	t.refused.Add(after.Refused - before.Refused)
}

// Missed returns how many ticks this process's servers have found missed, in all schedules together, since the
// process started. The keys are the reasons: too_late, too_many, overlapped, duplicate and refused, as in Counts.
// Info.Counts has the numbers of each schedule since it was created. A run whose answer was lost may be
// left out. observe.MetricsConfig.Schedules reports the numbers.
func (s *Schedules) Missed() map[string]int64 {
	t := &s.missed
	return map[string]int64{"too_late": t.tooLate.Load(), "too_many": t.tooMany.Load(), "overlapped": t.overlapped.Load(),
		"duplicate": t.duplicate.Load(), "refused": t.refused.Load()}
}
