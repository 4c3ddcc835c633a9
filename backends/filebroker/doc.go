// Package filebroker is the broker that keeps its jobs in a file, without a server:
// for programs of one binary, command-line tools, and development.
//
//	b, err := filebroker.Open("jobs.db")
//
// What was answered is on the disk: it survives kill -9 and power cuts. One process at
// a time has the file open; in it, any number of handles.
//
// # How it works
//
// It is package membroker with a journal: all jobs are in memory, which decides. The
// records that a call changed go into one transaction of a bbolt file, and the answer
// waits until that is on the disk (broker.go). Calls that come while a transaction is
// being written share the next one (writer.go), so that many callers, or large batches,
// cost few writes. A call that only reads waits for what it may have seen. Open reads the
// file into memory (file.go).
//
// # When the disk fails
//
// Calls whose transaction failed answer an error that says nothing about their effect.
// From then on memory is ahead of the disk, so every call answers
// [broker.ErrUnavailable] until all handles are closed and the file is opened anew.
package filebroker
