// Package workflow runs jobs in order: chains, groups, joins, graphs, sagas.
//
//	wf := workflow.New("order-42").Add(workflow.Chain(
//		workflow.Node{Name: "reserve", Task: reserve, Compensate: release},
//		workflow.Node{Name: "charge", Task: charge, Compensate: refund},
//		workflow.Node{Name: "ship", Task: ship},
//	))
//	err := workflow.Start(ctx, client, wf)
//
// Every server that runs nodes needs the extension:
//
//	jobs.Config{Extensions: []jobs.Extension{workflow.Extension(client, workflow.ExtensionConfig{})}}
//
// A node is a job in its task's queue, with the task's own options. Its handler
// can read the results of other nodes ([Result], [Results]), set its own
// ([SetResult]), and add nodes ([Of]).
//
// # How it works
//
// A workflow is itself a job, in the reserved queue [Queue]. Its payload is the
// graph. Each run of that job looks at the nodes, starts those that have become
// ready, and snoozes. The jobs of all nodes are stored when the workflow starts,
// scheduled for the year 2199. To start a node is to reschedule its job to now,
// which the store refuses if anything has happened to the job. So a run can stop
// at any instruction and be repeated, and each node starts once. What a run has
// seen and decided is in a mark, whose fence orders the runs.
//
// A server that settles a node's job wakes its workflow. If that wake-up is lost,
// or if a node ends in another way, the workflow notices within five seconds.
package workflow
