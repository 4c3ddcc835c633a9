// Package shardbroker spreads the jobs of every queue over several stores, which
// it uses through [broker.Broker] alone: prefixes of one Redis Cluster, Redis
// servers, PostgreSQL databases. It is for a queue that one store is too small for.
//
// Where a job goes follows from the job: from its key, or else from its unique key,
// or else from its ID. So all jobs of a key are in one store, which puts them in
// order and holds their limits as it does by itself. What the stores cannot keep
// together Limits.Shards of package broker lists, and docs/backends/shards.md explains.
//
// Every process has to name the same shards, in any order. The names are what
// routes jobs: a shard keeps its name for as long as it has jobs, wherever its store
// moves to. To add and remove shards while jobs run, see Shard.From and Shard.Until.
//
// What names a job by its ID alone (a Find by IDs, an Operate) asks the shard of that
// ID first, and the other shards for what is not there. A claim begins with one
// shard that has something, and goes on to the others for what that leaves. A claim
// that waits waits in all shards at once. All else asks all shards at the same time.
//
// A shard that is away leaves the others at work. Answers that lack its part come
// with an error that names it.
package shardbroker
