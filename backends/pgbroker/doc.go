// Package pgbroker keeps jobs in PostgreSQL 14 or later, in a schema of their
// own. It implements broker.Broker, whose package comment is the contract,
// enqueues inside a caller's transaction, see Broker.Tx and Broker.SQLTx, and
// completes a job inside its handler's, see Broker.CompleteTx.
//
// # Layout
//
// Table job holds the jobs that are not final, one small row each: a claim is
// an update by ctid of what an index scan found, a settle deletes or updates by
// primary key. Final jobs move to table dead, or to table history, which is
// partitioned by the day on which records expire; a job without a retention
// leaves nothing. Rows that many calls would update are avoided throughout:
// counts are deltas that Prune folds, a worker is one row that its heartbeat
// renews, the verdicts of a settle are a row of their own.
//
// A snapshot that stays open for long keeps dead entries at the front of every
// index whose rows come and go. Claims step over them by a scan floor: see
// floor.go.
//
// # Keys and limits
//
// Column flow of a queue says how claims serve it. Without keys and limits claim.sql does.
// Otherwise the statements flow_*.sql do: first a claim locks what it is going to count
// (flow_limit.sql, flow_lock.sql), then it counts leases and takes jobs in a later snapshot
// (flow_take.sql). Table key has a row for each key that has pending jobs, and only claims
// change it; blocked keys are in none of the indexes by which claims find turns. A transaction
// that makes a job of a key pending, or makes room for one, inserts a row into table call, and
// so waits for no claim and no other producer.
//
// # Locks
//
// A call that waits for several rows takes them in one order, so that calls do not deadlock:
// first jobs, queue by queue by their names and within a queue by ID, and the unique keys of
// those that end, by key; then the rows of a worker, and then the limits of queues, both by
// the numbers of the queues; then the keys that a claim makes, by name. Settles, operations,
// repairs, claims, renewals and retires all keep it, which for statements that go by an index
// is the order of that index (settings.sql). Everything else that is locked, such as jobs that
// another claim or a reclaim takes, keys that another claim uses, or ended workers, is skipped
// (skip locked), and found again later. An enqueue goes the other way, from unique keys to
// IDs, and so waits for a bounded time (lock_timeout). If the server still finds a deadlock,
// as it may with transactions of the caller's, nothing was applied, and the error is
// ErrUnavailable.
//
// # Time
//
// A request without Now takes its time from statement_timestamp(), the moment at which the
// server received the statement: unlike now() it does not stand still in a long transaction of
// the caller's, and unlike clock_timestamp() it is one value for the whole statement, which
// indexes can be searched by.
//
// # Connections
//
// Calls borrow a connection of the pool for one or two round trips; a claim
// that waits holds none. A broker keeps two connections of its own at most, made
// like those of the pool: one for heartbeats, from the first Renew, so that handlers
// which use up the pool cannot make their leases run out; and one, taken out of the
// pool, that listens for wake-ups, from the first claim that waits or Watch until
// Close.
//
// Through a PgBouncer in transaction pooling set Config.PollOnly: nothing then depends on a
// session. With Config.Listen as well, the connection that listens goes past the PgBouncer.
package pgbroker
