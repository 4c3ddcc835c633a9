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

// Store is one isolated, empty place for jobs: a key prefix, a schema, a map.
// What it holds on to is given back through TB.Cleanup. Its functions are
// called from one goroutine at a time, unless said otherwise.
type Store struct {
	// Open returns a new handle on the store, as another process would have
	// one. The suite closes it at the end, and in some rules before. Required.
	// Where claims that wait also look by themselves now and then, open a handle
	// that does so after an hour: else a wake-up that is missing goes unseen.
	Open func(TB) broker.Broker

	// OneStore returns a handle, as Open does, that has all jobs go to one of the
	// stores over which a backend with Limits.Shards spreads them, and gives that store
	// the whole of each limit. Rules about what one store alone can keep use it.
	OneStore func(TB) broker.Broker

	// Bounce severs every connection to the store, or restarts its server
	// without losing data. It may be called while calls are in flight, and must
	// leave other stores alone, which rules use in parallel. Nil for a store
	// that cannot be away.
	Bounce func(TB)

	// Reopen closes the store and opens it anew, as after a restart of all that
	// serves it: a store of files or of one process closes these. The suite closes
	// its handles before, and opens others with Open. Bounce is used when it is
	// nil; a store with neither keeps nothing beyond its process.
	Reopen func(TB)

	// Dump describes what is stored, for people: it is printed when a rule
	// fails. May be nil.
	Dump func() string

	// PlantLayout makes the record of an existing queue look as if a newer
	// release had raised its layout. Nil for a store whose layout is not stored.
	PlantLayout func(tb TB, queue string)

	// PlantBody replaces the stored body of an existing job by these bytes; by
	// nothing at all, whatever else is stored with it, when they are none.
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

// Group is the part of the ID before the slash.
func (r Rule) Group() string {
	group, _, _ := strings.Cut(r.ID, "/")
	return group
}

// limit ties a rule to a field of broker.Limits. A backend that declares it is
// held to its refusal instead of the rule.
type limit struct {
	name     string
	declared func(broker.Limits) bool
	refused  func(*check)
	also     *limit
}

// and is the limit of a rule that either of two makes void.
func (l *limit) and(other *limit) *limit {
	both := *l
	both.also = other
	return &both
}

// declined is the first limit of the rule that is declared, or nil.
func (r Rule) declined(by broker.Limits) *limit {
	for l := r.limit; l != nil; l = l.also {
		if l.declared(by) {
			return l
		}
	}
	return nil
}

// lacks reports whether r is about a part of the store that it does not have.
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

// forRule is the store as the rule uses it.
func (s *Store) forRule(r Rule) *Store {
	if s.OneStore == nil || !ofOneStore(r) {
		return s
	}
	one := *s
	one.Open = s.OneStore
	return &one
}

// groups is the suite, in the order of the contract.
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

// Run checks every rule, each in a parallel subtest named for it on a store of
// its own. A backend's whole conformance test is a call of Run. With groups, only the
// rules of these are checked, and no report is written: for another configuration of
// a backend that is checked whole. JOBS_CONFORMANCE=all has such a run check all.
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
