// Package relay moves jobs from a queue of one store to a queue of another, for as
// long as it runs. It is the outbox of an application whose rows are in Postgres
// and whose workers are on Redis: the application enqueues into Postgres, in the
// transaction that writes the rows, and the relay brings the jobs to Redis.
//
//	r, err := relay.New(relay.Config{From: postgres, FromQueue: "mail", To: redis})
//	…
//	err = r.Run(ctx)
//
// Or a server runs it: jobs.Config{Extensions: []jobs.Extension{r.Extension()}}.
// Or the command does: jobsctl relay --queue mail --to redis://….
//
// # What it promises
//
// No job is lost. Each job is accepted once by the target, under the ID that it
// has at the source, however often relays die and answers are lost; for how long
// that holds is said below. Jobs with the same key arrive in the order in which
// the source hands them out. A job that the target refuses for good is dead at
// the source, with the reason.
//
// # How it works
//
// The relay is a worker of the source queue. It claims a batch, enqueues the jobs
// at the target under their IDs, and completes them at the source. What it holds
// when it dies comes again after its lease; the target refuses what it has.
//
// Any number of relays of a queue may run. One of them moves jobs, which is what
// keeps the order; the others stand by. A relay that dies is followed by another
// after its lease, one that drains almost at once. Nothing else may claim from
// the source queue.
//
// # For how long a job is accepted once
//
// The target must remember an ID until the source knows that the job has arrived.
// It does while it has a record of the job, and for Policy.DuplicateSpan of its
// queue after that: an hour, unless that is changed. A job can arrive twice only
// if a relay dies, or hears no answer, between the two stores; and the job is
// done at the target; and no relay goes on for longer than that span.
package relay
