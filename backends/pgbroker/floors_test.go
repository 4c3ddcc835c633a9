package pgbroker

import (
	"testing"
	"time"
)

// looks drives the floors of queue q as claims do.
type looks struct {
	t      *testing.T
	floors floors
	now    time.Time
	xact   int64
}

func newLooks(t *testing.T) *looks {
	return &looks{t: t, now: time.Unix(1e9, 0), xact: 100}
}

// begin begins a look, after enough jobs to be worth its cost.
func (l *looks) begin() *look {
	l.t.Helper()
	l.now = l.now.Add(time.Second)
	l.floors.claimed([]string{"q"}, lookJobs, false, 0)
	k := l.floors.look([]string{"q"}, l.now, false)
	if k == nil {
		l.t.Fatalf("no look after %d claimed jobs", lookJobs)
	}
	l.xact++
	k.xact = l.xact
	return k
}

// end answers a look: the oldest transaction that ran, the last seq taken, and the first
// pending seq of the normal priority's lane, 0 for none. If the oldest one is old, all others are
// younger than the look.
func (l *looks) end(k *look, xmin, last, first int64) {
	k.xmin, k.young, k.last, k.first = xmin, xmin, last, make([]*int64, lanes)
	if xmin <= k.old {
		k.young = k.xact
	}
	if first > 0 {
		k.first[normal] = &first
	}
	k.dueAt, k.dueTurns = make([]*int64, 1), make([]*int64, 1)
	l.floors.raise(k, l.now)
}

// look makes a look that no other transaction overlaps.
func (l *looks) look(last, first int64) {
	k := l.begin()
	l.end(k, k.xact, last, first)
}

// normal is the position of the lane of jobs with normal priority.
const normal = 3

func (l *looks) safe() int64 { return l.floors.queue("q").safe[normal] }

func (l *looks) want(what string, safe int64) {
	l.t.Helper()
	if got := l.safe(); got != safe {
		l.t.Errorf("%s the floor is %d, want %d", what, got, safe)
	}
}

func TestFloors_AFloorFollowsWhatIsClaimed(t *testing.T) {
	t.Parallel()
	l := newLooks(t)
	l.look(500, 300)
	l.want("after one look", 0)
	l.look(600, 400)
	l.want("while the transactions of the first look may still run", 0)
	l.look(700, 450)
	l.want("with a job pending below what was drawn", 449)
	l.look(800, 0)
	l.want("with nothing pending", 600)
	if from, _, _ := l.floors.start([]string{"q"}, l.now); from[normal-1] != noFloor {
		t.Errorf("a front lane begins at %d, want its very front", from[normal-1])
	}
}

func TestFloors_AFloorWaitsForTransactionsThatMayHaveDrawnASeq(t *testing.T) {
	t.Parallel()
	l := newLooks(t)
	l.look(500, 0)
	late := l.xact + 1 // a writer that has taken a seq below 500 and stays open
	l.xact++
	for range 5 {
		k := l.begin()
		l.end(k, late, 1000, 0)
		l.want("while an older transaction runs", 0)
	}
	l.look(1000, 450)
	l.want("when its job has come", 449)
}

// The last seq that a look saw may belong to a transaction younger than its own. Only a later
// look can tell that it has ended.
func TestFloors_ALookDoesNotTrustWhatItSawItself(t *testing.T) {
	t.Parallel()
	l := newLooks(t)
	first, second := l.begin(), l.begin() // both begin before either is answered
	l.end(first, first.xact, 900, 0)
	l.end(second, second.xact+1, 900, 0)
	l.look(900, 0)
	l.want("after looks that overlap and one more", 0)
	l.look(900, 0)
	l.want("after one that began when that had been answered", 900)
}

func TestFloors_AStoreThatWentBackHasNoFloors(t *testing.T) {
	t.Parallel()
	l := newLooks(t)
	for range 4 {
		l.look(1000, 0)
	}
	l.want("before", 1000)
	l.look(200, 0)
	l.want("after seqs began anew", 0)
}

func TestFloors_ClaimsSweepNowAndThen(t *testing.T) {
	t.Parallel()
	l := newLooks(t)
	sweeps := func(during time.Duration) (n int) {
		for end := l.now.Add(during); l.now.Before(end); l.now = l.now.Add(10 * time.Millisecond) {
			if _, _, sweep := l.floors.start([]string{"q"}, l.now); sweep {
				n++
				l.floors.claimed([]string{"q"}, 0, true, time.Millisecond)
			}
		}
		return n
	}
	if n := sweeps(15 * time.Second); n < 3 {
		t.Errorf("%d sweeps in a lease of 15s, want one every %v", n, sweepPause)
	}
	// A writer stays open while many jobs are claimed.
	l.look(100, 0)
	open := l.xact + 1
	l.xact++
	for seq := int64(1); seq <= 4; seq++ {
		k := l.begin()
		l.end(k, open, seq*lagging, seq*lagging+1)
	}
	l.floors.start([]string{"q"}, l.now) // a sweep
	if from, _, _ := l.floors.start([]string{"q"}, l.now); from[normal] <= lagging {
		t.Errorf("a claim begins at %d while the exact floor lags, want near the front", from[normal])
	}
	if n := sweeps(time.Second); n < 3 || n > 4 {
		t.Errorf("%d sweeps in a second while the floor lags, want one every %v", n, laggingPause)
	}
	for _, doubted := range []bool{false, true} {
		l.floors.queue("q").swept = l.now
		if doubted {
			l.floors.doubt("q")
		}
		if n := sweeps(laggingPause / 2); n == 1 != doubted {
			t.Errorf("%d sweeps soon after the last one; a transaction that was open for long brought jobs: %t", n, doubted)
		}
	}
	l.floors.claimed([]string{"q"}, 0, true, time.Second)
	if n := sweeps(sweepShare*time.Second - time.Second); n != 0 {
		t.Errorf("%d sweeps within %d times as long as the last one took, want none", n, sweepShare)
	}
}

// While a writer is open, looks cost as much as claims. Once it has ended, one look searches
// from the exact floor, and finds its jobs.
func TestFloors_ALookGoesBackOnlyWhenThatRaisesTheFloor(t *testing.T) {
	t.Parallel()
	l := newLooks(t)
	l.look(100, 0)
	open := l.xact + 1
	l.xact++
	seq := int64(0)
	for range 6 { // the writer becomes old
		seq += 2 * lagging
		k := l.begin()
		l.end(k, open, seq, seq+1)
	}
	k := l.begin()
	if k.floors[normal] < lagging {
		t.Errorf("a look begins at %d while a writer is open, want near the front, at %d", k.floors[normal], seq)
	}
	l.end(k, k.xact, seq, seq+1)
	l.want("when the writer has just ended", 0)
	k = l.begin()
	if k.floors[normal] != 0 {
		t.Errorf("the next look begins at %d, want at the exact floor", k.floors[normal])
	}
	l.end(k, k.xact, seq, 50)
	l.want("with the writer's job found", 49)
	if from, _, _ := l.floors.start([]string{"q"}, l.now); from[normal] >= 50 && from[normal] != noFloor {
		t.Errorf("a claim begins at %d, behind the writer's job at 50", from[normal])
	}
}

// A process that starts knows nothing about the seqs so far. So the exact floor seems to lag by all of them.
func TestFloors_NoFloorPassesAYoungTransaction(t *testing.T) {
	t.Parallel()
	l := newLooks(t)
	const last = 10 * lagging
	l.look(last, 0)
	open := l.xact + 1
	l.xact++
	begins := func() int64 {
		t.Helper()
		l.floors.queue("q").swept = l.now
		from, _, _ := l.floors.start([]string{"q"}, l.now)
		return from[normal]
	}
	for began := l.now; l.now.Sub(began) < oldAge; {
		k := l.begin()
		l.now = l.now.Add(-time.Second + oldAge/10)
		l.end(k, open, last, 0)
		if at := begins(); at > 0 {
			t.Fatalf("a claim begins at %d while a transaction may have taken a seq of up to %d a moment ago", at, last)
		}
	}
	for range 4 {
		k := l.begin()
		l.end(k, open, last, 0)
	}
	if at := begins(); at != last {
		t.Errorf("a claim begins at %d while a transaction has been open for several times %v, want %d", at, oldAge, last)
	}
	l.now = l.now.Add(oldAge)
	l.xact = 1
	k := l.begin()
	l.end(k, k.xact, last, 0)
	if k = l.begin(); k.old != 0 {
		t.Errorf("after IDs began anew, transactions up to %d count as old", k.old)
	}
}

func TestFloors_OfDueJobs(t *testing.T) {
	t.Parallel()
	l := newLooks(t)
	const now = 1e15
	look := func(dueAt, turn int64) {
		k := l.begin()
		k.first, k.dueAt, k.dueTurns, k.at = make([]*int64, lanes), []*int64{&dueAt}, []*int64{&turn}, now
		if dueAt == 0 {
			k.dueAt[0], k.dueTurns[0] = nil, nil
		}
		l.floors.raise(k, l.now)
	}
	want := func(what string, at, seq int64) {
		t.Helper()
		if _, due, _ := l.floors.start([]string{"q"}, l.now); len(due.at) != 1 || due.at[0] != at || due.seq[0] != seq {
			t.Errorf("%s claims of due jobs begin behind %v, want the due time %d and turn %d", what, due, at, seq)
		}
	}
	want("before any look", noFloor, noFloor)
	l.floors.start([]string{"q"}, l.now) // a sweep
	look(0, 0)
	want("with nothing due", now-dueMargin, noFloor)
	look(now-1, 7)
	want("with a job that fell due just now", now-dueMargin, noFloor)
	look(now-dueMargin-5, 7)
	want("with a job that has been due for longer", now-dueMargin-5, 6)
	l.now = l.now.Add(sweepPause)
	want("in a sweep", noFloor, noFloor)
	want("after a sweep, which may have left jobs,", noFloor, noFloor)
}
