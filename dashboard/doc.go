// Package dashboard shows a store of jobs in a browser, live: queues, jobs, dead jobs
// and workers. Users whom the application permits can change them. A Handler mounts
// under any path of any mux and needs nothing from outside: its assets are embedded.
//
// The load on the store does not grow with the number of open pages: they share one
// read of the counters per interval, which happens only while a page is open, and a
// small budget for refreshing lists. No page scans a queue: a search examines a bounded
// number of records and offers to continue.
//
// It is read-only, and shows no payload, unless Config.Authorize permits more. Wrap the
// handler in the application's authentication, which decides who may see it at all. See
// docs/dashboard.md.
package dashboard
