package jobs

import "github.com/seed81422ce9/jobs/broker"

// Option sets something of one enqueued job.
type Option interface{ apply(*enqueueConfig) }

// enqueueConfig is what the options of one Enqueue add up to.
type enqueueConfig struct {
	job broker.NewJob
}
