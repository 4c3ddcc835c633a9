// Package shardbroker spreads the jobs of every queue over several stores, which
// it uses through [broker.Broker] alone: prefixes of one Redis Cluster, Redis
// servers, PostgreSQL databases. It is for a queue that one store is too small for.
//
// A job's key decides its shard, or else its unique key, or else its ID. So all jobs of a
// key are in one store, which keeps their order and their limits. §44 of the contract says
// what the stores cannot keep together, and docs/backends/shards.md explains it.
//
// Every process names the same shards, in any order. The names route jobs: a shard keeps
// its name for as long as it has jobs, wherever its store moves to. To add and remove
// shards while jobs run, see Shard.From and Shard.Until.
//
// Calls that name a job by its ID alone (a Find by IDs, an Operate) ask the shard of that
// ID first, and then the other shards for jobs that are not there. A claim asks one shard
// that has jobs, and then the others if that gave too few. A claim that waits does so in
// all shards at once. All other calls ask all shards at the same time.
//
// A limit of a whole queue is divided among the shards. While processes claim from the queue,
// the parts move to the shards that need them, and the limit holds as docs/backends/shards.md
// says. The parts of a rate over more than a minute, and of numbers of records to keep, are fixed.
//
// While a shard is away the others work. Answers without its part come beside an error
// that names it.
package shardbroker
