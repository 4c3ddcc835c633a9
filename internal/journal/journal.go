// Package journal connects the memory store with what keeps its records on disk. Package membroker
// writes and reads records, package filebroker stores them.
package journal

// Kind is the kind of a record.
type Kind uint8

// Kinds, in the order in which they are loaded.
const (
	Fence      Kind   = iota + 1 // the highest fence of a mark
	Marks                        // by name
	Queues                       // the kinds that follow are by queue, then by key, ID or name
	Keys                         // with jobs in a queue
	Workers                      // by ID
	Bodies                       // of jobs
	Jobs                         // the rest of a job
	Unique                       // the holders of unique keys
	Remembered                   // IDs of jobs that are gone
	Kinds      = iota            // the number of kinds
)

var names = [...]string{"", "fence", "marks", "queues", "keys", "workers", "bodies", "jobs", "unique", "remembered"}

// String returns the name of the kind.
func (k Kind) String() string { return names[k] }

// Record is one entry of the journal, with its current value.
type Record struct {
	Kind  Kind
	Key   []byte
	Value []byte // nil if the record was removed
}

// Journal keeps the records of a store.
type Journal interface {
	// Load calls read for each record, kind by kind, and stops at the first error. read must not keep
	// the bytes.
	Load(read func(Record) error) error
	// Append records what a step of the store changed. Steps arrive in order and under the lock of the
	// store, so Append must not wait for a disk. It may keep the bytes.
	Append(changed []Record)
}
