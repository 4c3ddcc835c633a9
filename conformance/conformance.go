package conformance

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// TB is the part of testing.TB that the suite uses. *testing.T and *testing.B
// have it; Judge brings its own, so that rules can be judged without a test.
type TB interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	TempDir() string
	Failed() bool
	FailNow()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Store is one isolated, empty store: a key prefix, a schema, a map. Release its resources with
// TB.Cleanup. Its functions are called from one goroutine at a time, unless their comments say
// otherwise.
type Store struct {
	// Open returns a new handle on the store, as another process would have
	// one. The suite closes it at the end, and in some rules earlier. Required. If waiting claims also
	// poll, open the handle with an interval of an hour: polling would hide a missing wake-up.
	Open func(TB) broker.Broker

	// OneStore is for a backend with Limits.Shards. It returns a handle, as Open
	// does, that sends all jobs to one of the shards, and gives that shard the whole of each limit.
	// Rules that only a single store can satisfy use it.
	OneStore func(TB) broker.Broker

	// Bounce severs every connection to the store, or restarts its server
	// without losing data. It may be called while calls are in flight, and must
	// leave other stores alone, which rules use in parallel. Nil for a store
	// that cannot become unavailable.
	Bounce func(TB)

	// Reopen closes the store and opens it again, as after a restart of everything
	// that serves it. The suite closes its handles before, and opens others with
	// Open. If it is nil, Bounce is used; a store with neither keeps nothing beyond
	// its process.
	Reopen func(TB)

	// Dump describes what is stored, and is printed when a rule fails. May be nil.
	Dump func() string

	// PlantLayout makes the record of an existing queue look as if a newer
	// release had raised its layout. Nil for a store whose layout is not stored.
	PlantLayout func(tb TB, queue string)

	// PlantBody replaces the stored body of an existing job by these bytes. If
	// there are none, it removes the body and leaves the rest of the job.
	// Nil for a store that keeps no encoded bodies.
	PlantBody func(tb TB, queue, id string, body []byte)
}

// Rule is one sentence of the contract that the suite checks.
type Rule struct {
	ID      string // Group/Name; stable, so that reports can be compared
	Section string // of package broker's comment
	Text    string

	limit *limit
	check func(*check)
}

// Group returns the part of the ID before the slash.
func (r Rule) Group() string {
	group, _, _ := strings.Cut(r.ID, "/")
	return group
}

// limit ties a rule to a field of broker.Limits. A backend that declares the
// limit must refuse what the rule asks for.
type limit struct {
	name     string
	declared func(broker.Limits) bool
	refused  func(*check)
	also     *limit
}

// and returns a limit for a rule that holds only if neither of two limits is declared.
func (l *limit) and(other *limit) *limit {
	both := *l
	both.also = other
	return &both
}

// declined returns the first limit of the rule that is declared, or nil.
func (r Rule) declined(by broker.Limits) *limit {
	for l := r.limit; l != nil; l = l.also {
		if l.declared(by) {
			return l
		}
	}
	return nil
}

// lacks reports whether r needs a function that s does not have.
func (s *Store) lacks(r Rule) bool {
	switch r.Group() {
	case "Layout":
		return s.PlantLayout == nil
	case "Broken":
		return s.PlantBody == nil
	case "Durable":
		return s.Reopen == nil && s.Bounce == nil
	case "Bounce":
		return s.Bounce == nil
	}
	return false
}

// forRule returns the store that r uses: of one shard, for rules of ofOneStore.
func (s *Store) forRule(r Rule) *Store {
	if s.OneStore == nil || !ofOneStore(r) {
		return s
	}
	one := *s
	one.Open = s.OneStore
	return &one
}

// groups has all rules, in the order in which Rules lists them.
var groups = [][]Rule{
	enqueueRules,
	claimRules,
	manyRules,
	bytesRules,
	orderRules,
	leaseRules,
	settleRules,
	outcomeRules,
	keepRules,
	reclaimRules,
	scheduleRules,
	examineRules,
	uniqueRules,
	policyRules,
	findRules,
	findDeadRules,
	countRules,
	totalsRules,
	operateRules,
	holdRules,
	editRules,
	restoreRules,
	retentionRules,
	markRules,
	watchRules,
	dataRules,
	layoutRules,
	faultRules,
	cutRules,
	bounceRules,
	durableRules,
	wakeRules,
	wakeAllRules,
	raceRules,
	moreRules,
	leftRules,
	boundRules,
	endedRules,
	answerRules,
	meetRules,
	keepLastRules,
	limitRules,
	keyRules,
	turnRules,
	sequenceRules,
	flowWakeRules,
	exactRules,
	shardRules,
	modelRules,
}

// Rules lists every rule of the suite in order.
func Rules() []Rule {
	var all []Rule
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// Run checks every rule, each on a store of its own in a parallel subtest named
// after it. With groups, it checks only their rules and writes no report; use this
// for a second configuration of a backend whose first one is checked whole.
// JOBS_CONFORMANCE=all makes such a run check everything.
func Run(t *testing.T, newStore func(TB) *Store, groups ...string) {
	report := newReport(t)
	if os.Getenv("JOBS_CONFORMANCE") == "all" {
		groups = nil
	}
	if len(groups) == 0 {
		t.Cleanup(func() { report.write(t) })
	}
	var names []string
	byGroup := make(map[string][]Rule)
	for _, r := range Rules() {
		if len(groups) > 0 && !slices.Contains(groups, r.Group()) {
			continue
		}
		if byGroup[r.Group()] == nil {
			names = append(names, r.Group())
		}
		byGroup[r.Group()] = append(byGroup[r.Group()], r)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range byGroup[name] {
				_, short, _ := strings.Cut(r.ID, "/")
				t.Run(short, func(t *testing.T) {
					t.Parallel()
					v := new(Verdict)
					defer report.add(v)
					v.run(t, r, newStore)
				})
			}
		})
	}
}
