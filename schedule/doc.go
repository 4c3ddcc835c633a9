// Package schedule enqueues jobs at times: by lines of cron, or at intervals.
//
//	schedules := schedule.New(b, "billing")
//	report := jobs.NewTask("report:nightly", nil)
//	_, err := schedules.Put(ctx, "nightly-report", schedule.Cron("0 3 * * *", "Europe/Berlin"), report)
//
// Servers run schedules if they have the extension:
//
//	jobs.Config{Extensions: []jobs.Extension{schedules.Extension(client, schedule.ExtensionConfig{})}}
//
// Each time that a schedule names is a tick. Each tick becomes one job, with
// the ID "<schedule>@<time in UTC>". Any number of servers can run schedules;
// there is no leader.
//
// # How it works
//
// A schedule is itself one job, in the reserved queue [Queue], which never
// ends. Its payload is the definition. When a tick is due, a server runs it: it
// enqueues the tick's job, and snoozes until the next tick. Times are computed
// from the times before, never from when the server came to it, so ticks do not
// drift. What was decided is written down, in a mark of the store, before
// anything is enqueued, and an ID is accepted once. So if a server dies at any
// instruction, another one goes on where it was: no tick is lost, and none is
// doubled.
//
// That a tick is not doubled depends on the memory of its queue for IDs, as
// [jobs.WithID] says: an hour after the job is gone, unless the queue's policy
// says otherwise. It would take a server that dies between two calls, or hangs
// between them, and nobody going on for longer than that.
//
// The store's clock counts. Clocks of servers do not matter.
package schedule
