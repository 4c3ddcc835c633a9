package schedule

import "github.com/seed81422ce9/jobs/broker"

var kinds = broker.KnownFindings(findings)

// FindingKinds returns the kinds of findings that Examine can report.
func FindingKinds() []broker.FindingKind { return append([]broker.FindingKind(nil), findings...) }

var findings = []broker.FindingKind{
	{Code: "schedule-stopped",
		Means:  "the schedule's own job is dead, is held by a mover, or has ended: the schedule does not tick",
		Repair: "a dead job is revived; the misfire policy decides what happens to missed ticks",
		Advice: "finish or undo the move that holds it; if it has ended, start a server that defines it, or put it again"},
	{Code: "schedule-late",
		Means: "a tick was due more than two minutes ago and its job is not enqueued, or the schedule sleeps past its next tick",
		Repair: "a schedule that sleeps past its tick is woken, and decides its ticks from now on: repair only while the store's clock " +
			"is right",
		Advice: "start a server that runs schedules, and see that the queue @schedules is not paused; otherwise look at the log of " +
			"the server"},
	{Code: "schedule-unreadable",
		Means:  "this program cannot read the definition of a schedule: servers of its release do not run it",
		Advice: "if a newer release put it, use that one; otherwise put it again, or delete it"},
	{Code: "schedule-failing", Warning: true,
		Means:  "the job of a schedule's last tick was refused, or cannot be enqueued just now",
		Advice: "see jobsctl schedule show, and change the definition or the policy of its queue"},
}
