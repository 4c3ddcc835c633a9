// Package membroker is the broker that keeps its jobs in memory: for tests in
// virtual time, for programs that may lose their jobs when they end, and as
// the reference for what the contract in package broker means.
//
//	store := membroker.NewStore()
//	b := store.Open()
//
// A [Store] is what the brokers of several clients and servers share; each
// [Broker] is one handle on it. [New] is for a program that needs one handle
// only. Nothing survives the process.
//
// # How to read it
//
// One mutex guards a store: each call is one atomic step, so the contract's
// "at every instant that another client can observe" is "whenever the mutex is
// free". The file named for a method holds that method. Below the methods,
// queue.go moves jobs between the places of their states; ready.go, bag.go and
// timeline.go are those places. They are exact: a job that leaves a state is
// gone from its place in the same step, so no entry is ever void (§3), and
// each costs O(1), or O(log n) where times order it. What a pending job consists
// of is kept small and has few pointers, for the garbage collector's sake: see
// index.go, body.go and arena.go, and ADR 14.
//
// # Time
//
// The clock is time.Now, hence virtual inside a [testing/synctest] bubble. A
// store has no goroutine and no timer, and channels only for calls that are
// waiting, made by those calls: it can be created outside a bubble and used
// inside.
package membroker
