// Package parked defines how a job that waits for its workflow is stored. Package workflow and tools
// that explain jobs use it.
package parked

import "time"

// Headers of the jobs of a workflow.
const (
	HeaderWorkflow = "jobs-workflow"      // the workflow's ID
	HeaderNode     = "jobs-workflow-node" // the node's name
)

// Until is the due time of a job that waits for its workflow: the last year that stores accept, which
// means never.
var Until = time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)
