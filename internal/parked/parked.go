// Package parked says how a job is stored that waits for its workflow, for
// package workflow and for tools that explain jobs.
package parked

import "time"

// Headers of the jobs of a workflow.
const (
	HeaderWorkflow = "jobs-workflow"      // the workflow's ID
	HeaderNode     = "jobs-workflow-node" // the node's name
)

// Until is when such a job is due: in effect never.
var Until = time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)
