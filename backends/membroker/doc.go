// Package membroker is the broker that keeps its jobs in memory: for tests in
// virtual time, for programs that may lose their jobs when they end, and as
// the reference for what the contract in package broker means.
//
//	store := membroker.NewStore()
//	b := store.Open()
//
// Several clients and servers share a [Store]; each [Broker] is one handle on it. [New] is
// for a program that needs only one handle. Nothing survives the process; package filebroker
// keeps such a store in a file.
//
// # How to read it
//
// One mutex guards a store: each call is one atomic step, so the contract's
// "at every instant that another client can observe" is "whenever the mutex is
// free". Follow one job: enqueue.go takes it in, claim.go leases it to a worker, or waits for
// it, settle.go ends the lease, prune.go removes the record of the job. On the way queue.go
// moves the job from state to state, and keeps the order within a state. lane.go has the keys
// of a queue: what each may start, and their turns. worker.go registers, renews and ends
// workers, operate.go has the decisions of operators. Other files read (find.go, watch.go,
// examine.go), or keep things other than jobs (unique.go, mark.go).
//
// A reader who wants to know what the contract means can leave out journal.go and form.go:
// they store and load records, for package filebroker alone.
//
// A job is in the map of its queue, in the list of its state and, with a key, in
// the list of jobs by key. No other structure leads to a job. A job that leaves a state
// leaves its list in the same step, so no entry is ever void (§3). A lane with pending jobs
// of a priority has a turn at that priority, behind the other turns while the lane may start no
// job. Each step costs O(log n). list.go has the lists.
//
// # Time
//
// The clock is time.Now, so it is virtual inside a [testing/synctest] bubble. [Store.Advance]
// moves it forward. A store has no goroutine and no timer. Only calls that wait make channels,
// so a store can be created outside a bubble and used inside.
package membroker
