// Package filebroker is a broker that keeps its jobs in a file, without a server. It is
// for programs of a single binary, command-line tools, and development.
//
//	b, err := filebroker.Open("jobs.db")
//
// When a call returns, its effects are on the disk: they survive kill -9 and power cuts. Only
// one process at a time can open the file, with any number of handles.
//
// # How it works
//
// It is package membroker with a journal. All jobs are in memory, and calls work there.
// The records that a call changed go into one transaction of a bbolt file, and the call
// returns when the transaction is on the disk (broker.go). Calls made while a transaction is
// being written share the next one (writer.go), so that many callers, or large batches,
// cost few writes. A call that only reads waits until the changes that it may have read are
// on the disk. Open reads the file into memory (file.go).
//
// # When the disk fails
//
// If a transaction fails, its calls return an error: they may or may not have had an effect.
// From then on the memory has changes that the disk does not have. So every call returns
// [broker.ErrUnavailable]. If the disk was only full, the store tries once a second to write
// them, and works again when there is room. After any other failure it does not write to the
// file any more, until all handles are closed and the file is opened again.
//
// Nobody else may touch the file while it is open. If it was removed, renamed, replaced or
// overwritten, nothing is written to it, with an error that says so.
package filebroker
