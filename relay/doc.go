// Package relay moves jobs from a queue of one store to a queue of another as they arrive. With it, an
// application whose rows are in Postgres and whose workers are on Redis has an outbox: it enqueues into
// Postgres, in the transaction that writes the rows, and the relay brings the jobs to Redis.
//
//	r, err := relay.New(relay.Config{From: postgres, FromQueue: "mail", To: redis})
//	…
//	err = r.Run(ctx)
//
// A server can run it, too: jobs.Config{Extensions: []jobs.Extension{r.Extension()}}.
// So can the command: jobsctl relay --queue mail --to redis://….
//
// # What it promises
//
// No job is lost. The target accepts each job once, under the ID that it has at
// the source, however often relays die and answers are lost; the last section says
// for how long. Jobs with the same key arrive in the order in which the source
// returns them. A job that the target refuses for good is dead at the source, with
// the reason.
//
// # How it works
//
// The relay is a worker of the source queue. It claims a batch, enqueues the jobs
// at the target under their IDs, and completes them at the source. If it dies, the
// next relay sends the jobs that it held again; the target refuses those that it
// has already.
//
// Any number of relays of a queue may run. Only one of them moves jobs, which keeps
// the order; the others stand by. If it dies, another takes over after its lease;
// if it drains, almost at once. Nothing else may claim from the source queue.
//
// # How long the target refuses duplicates
//
// The target must remember an ID until the source knows that the job has arrived.
// It does so while it has a record of the job, and for Policy.DuplicateSpan of its
// queue after that: one hour by default. A job can arrive twice only if all of this
// happens: a relay dies, or gets no answer, after it has sent the job and before it
// has completed it; the job ends at the target; and no relay runs for longer than
// that span.
package relay
