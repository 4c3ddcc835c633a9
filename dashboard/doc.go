// Package dashboard shows a store of jobs in a browser: queues, jobs, dead
// letters and workers, live, and lets those whom the host application permits
// decide about them. A Handler mounts under any path of any mux and needs
// nothing from outside: its assets are embedded.
//
// What it costs the store does not grow with the number of pages that are open:
// they share one look at the counters per interval, which is made only while a
// page is open, and a small budget for refreshing lists. No page scans a queue:
// a search examines a bounded number of records and offers to go on.
//
// It is read-only, and shows no payload, unless Config.Authorize permits more.
// Whom it may be shown to at all is decided around it: wrap the handler in the
// application's authentication. See docs/dashboard.md.
package dashboard
