// Package pgbroker keeps jobs in PostgreSQL 14 or later, in a schema of their
// own. It implements broker.Broker, whose package comment is the contract. It can
// also enqueue inside a caller's transaction, see Broker.Tx and Broker.SQLTx, and
// complete a job inside its handler's transaction, see Broker.CompleteTx.
//
// # Layout
//
// Table job holds the jobs that are not final, one small row each: a claim is
// an update by ctid of what an index scan found, a settle deletes or updates by
// primary key. Final jobs move to table dead, or to table history, which is
// partitioned by the day on which records expire; a job without a retention
// leaves no record. No row is updated by many calls: counts are deltas that
// Prune folds, a worker is one row that only its heartbeat updates, the verdicts
// of a settle are a row of their own.
//
// A snapshot that stays open for a long time keeps dead entries at the front of
// every index whose rows are often added and removed. Claims skip these entries:
// they begin their scans at a floor, see floor.go.
//
// # Keys and limits
//
// The column flow of a queue says how claims serve it. A queue without keys and limits is
// served by claim.sql. Other queues are served by the statements flow_*.sql: first a claim
// locks what it is going to count (flow_limit.sql, flow_lock.sql), then it counts leases and
// takes jobs in a later snapshot (flow_take.sql). Table key has a row for each key that has
// pending jobs, and only claims change it. The indexes by which claims find turns leave out
// blocked keys. A transaction that makes a job of a key pending, or makes room for one,
// inserts a row into table call. So it waits for no claim and no other producer.
//
// # Locks
//
// Calls that wait for several row locks take them in the same order, so that they do not
// deadlock: first jobs, by queue name and then by ID, and the unique keys of the jobs that
// end, by key, with the jobs that wait behind these; then the rows of a worker, by queue number;
// then the limits of queues, by queue number; then the keys that a claim makes, by name. Settles,
// operations, repairs, claims, renewals and retires keep this order. Their statements use indexes,
// which have that order (settings.sql). All other locked rows are skipped (skip locked) and found again later:
// jobs that another claim or a reclaim takes, keys that another claim uses, ended workers. An
// enqueue locks in the opposite order, unique keys before IDs, so it waits only for a bounded
// time (lock_timeout), and so does a redrive, which takes unique keys again. If the server still
// finds a deadlock, for example with a transaction of the caller, nothing was applied, and the
// error is ErrUnavailable.
//
// # Time
//
// A request without Now takes its time from statement_timestamp(), the moment at which the
// server received the statement. Unlike now(), it does not stand still in a long transaction
// of the caller. Unlike clock_timestamp(), it is the same in the whole statement, so an index
// can be searched by it.
//
// # Connections
//
// Calls borrow a connection of the pool for one or two round trips; a waiting claim holds
// none. A broker keeps at most two connections of its own, configured like those of the pool.
// One is for heartbeats, from the first Renew on: handlers that use up the pool must not make
// their own leases run out. The other, taken out of the pool, listens for wake-ups, from the
// first waiting claim or Watch until Close.
//
// Behind a PgBouncer in transaction pooling, set Config.PollOnly: then nothing depends on a
// session. If you also set Config.Listen, the connection that listens bypasses the PgBouncer.
package pgbroker
