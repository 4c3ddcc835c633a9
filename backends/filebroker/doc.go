// Package filebroker is a broker that keeps its jobs in a file, without a server. It is
// for programs of a single binary, command-line tools, and development.
//
//	b, err := filebroker.Open("jobs.db")
//
// What a call has answered is on the disk: it survives kill -9 and power cuts. One
// process at a time can open the file, with any number of handles.
//
// # How it works
//
// It is package membroker with a journal. All jobs are in memory, and calls work there.
// The records that a call changed go into one transaction of a bbolt file, and the
// answer waits until that is on the disk (broker.go). Calls made while a transaction is
// being written share the next one (writer.go), so that many callers, or large batches,
// cost few writes. A call that only reads waits until what it may have seen is on the
// disk. Open reads the file into memory (file.go).
//
// # When the disk fails
//
// Calls whose transaction failed return an error that leaves open whether they had an
// effect. From then on memory is ahead of the disk, so every call returns
// [broker.ErrUnavailable] until all handles are closed and the file is opened again.
package filebroker
