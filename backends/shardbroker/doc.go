// Package shardbroker spreads the jobs of every queue over several stores, which
// it uses through [broker.Broker] alone: prefixes of one Redis Cluster, Redis
// servers, PostgreSQL databases. Use it for a queue that is too large for one store.
//
// A job's key decides its shard, or else its unique key, or else its ID. So all jobs of a
// key are in one store, which keeps their order and their limits. §44 of the contract says
// what the stores cannot keep together, and docs/backends/shards.md explains it.
//
// Every process must name the same shards, in any order. The names decide where jobs are
// stored: a shard must keep its name while it has jobs, even if its store moves to another
// server. To add and remove shards while jobs run, see Shard.From and Shard.Until.
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
// While a shard is away, that is, fails or does not answer, the others work. Answers
// then lack its part, and come with an error that names the shard.
package shardbroker
