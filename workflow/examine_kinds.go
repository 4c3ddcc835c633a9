package workflow

import "github.com/seed81422ce9/jobs/broker"

var kinds = broker.KnownFindings(findings)

// FindingKinds returns the kinds of findings that Examine can report.
func FindingKinds() []broker.FindingKind { return append([]broker.FindingKind(nil), findings...) }

var findings = []broker.FindingKind{
	{Code: "workflow-stopped",
		Means:  "a workflow has not ended, and its own job is dead, was cancelled or is held by a mover: nothing starts its nodes",
		Repair: "a dead job is revived, and the workflow continues",
		Advice: "finish or undo the move that holds it; remove one whose job was cancelled with jobsctl workflow delete"},
	{Code: "workflow-unreadable",
		Means:  "this program cannot read a workflow or its state: servers of its release do not run it",
		Advice: "if a newer release started it, use that one; otherwise delete its job in @workflows, and let --fix remove its nodes"},
	{Code: "workflow-node-left",
		Means:  "a job waits for its workflow, whose own job was deleted: it never runs",
		Repair: "it is removed, as jobsctl workflow delete would have done",
		Advice: "to run it all the same, reschedule it before the repair"},
	{Code: "workflow-record-left", Warning: true,
		Means:  "a job that ended is kept for its workflow, whose own job was deleted: it only takes space",
		Repair: "it is removed"},
}
