// Package schedule enqueues jobs at set times: by cron lines or at intervals.
//
//	schedules := schedule.New(b, "billing")
//	report := jobs.NewTask("report:nightly", nil)
//	_, err := schedules.Put(ctx, "nightly-report", schedule.Cron("0 3 * * *", "Europe/Berlin"), report)
//
// Servers with the extension run schedules:
//
//	jobs.Config{Extensions: []jobs.Extension{schedules.Extension(client, schedule.ExtensionConfig{})}}
//
// Each time that a schedule names is a tick. Each tick becomes one job, with
// the ID "<schedule>@<time in UTC>". Any number of servers can run schedules;
// there is no leader.
//
// # How it works
//
// A schedule is itself a job in the reserved queue [Queue], one that never ends.
// Its payload is the definition. When a tick is due, a server runs the schedule:
// it enqueues the tick's job and snoozes until the next tick. Each time is
// computed from the one before, never from when a server ran it, so ticks do not
// drift. Decisions are stored in a mark before anything is enqueued, and a queue
// accepts an ID once. So if a server dies at any instruction, another one
// continues: no tick is lost, and none runs twice.
//
// That no tick runs twice depends on how long its queue remembers IDs (see
// [jobs.WithID]): for an hour after the job is gone, unless the queue's policy
// says otherwise. A tick could run twice only if a server died or hung between
// two calls and no server continued within that time.
//
// Only the store's clock counts; the servers' clocks do not matter.
package schedule
