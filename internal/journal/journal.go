// Package journal is the seam between a store of jobs in memory and what keeps its
// records on a disk. Package membroker writes and reads records, package filebroker
// keeps them.
package journal

// Kind says what a record is of.
type Kind uint8

// The kinds of records, in the order in which they are loaded.
const (
	Fence      Kind   = iota + 1 // the highest that a mark was given
	Marks                        // by name
	Queues                       // all others: by queue, and then by key, ID or name
	Keys                         // those of which the jobs of a queue take turns
	Workers                      //
	Bodies                       // of jobs
	Jobs                         // all else of them
	Unique                       // the holders of unique keys
	Remembered                   // IDs of jobs that are gone
	Kinds      = iota            // how many there are
)

var names = [...]string{"", "fence", "marks", "queues", "keys", "workers", "bodies", "jobs", "unique", "remembered"}

// String is the kind's name.
func (k Kind) String() string { return names[k] }

// Record is a record as it is now.
type Record struct {
	Kind  Kind
	Key   []byte
	Value []byte // nil: it is gone
}

// Journal keeps the records of a store.
type Journal interface {
	// Load calls read with each record, kind by kind. It ends with the first error.
	// The bytes are the journal's own, and good until read returns.
	Load(read func(Record) error) error
	// Append takes what a step of the store changed. Steps come in their order, and
	// under the store's lock, so that Append may not wait for a disk. The bytes are
	// the journal's from now on.
	Append(changed []Record)
}
