// Package redisbroker is the broker that keeps its jobs in Redis 6.2 or newer,
// or in Valkey: on one server, in a group with Sentinels, or in a Cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	b, err := redisbroker.New(ctx, client, redisbroker.Config{})
//
// # What the server needs
//
// maxmemory-policy noeviction: New logs a warning for policies that may evict jobs. A
// full server refuses new jobs with ErrUnavailable, but workers go on: scripts that
// claim, settle, renew or release begin with a removal, and then Redis lets the
// script finish. A crash of the server loses what its persistence settings allow
// (appendonly with everysec: about a second). A failover loses what was not replicated
// yet, except new jobs with [Config.Replicas]. After a failover by Sentinels, the broker
// sends nothing to the old master as soon as the Sentinel to which the client listens
// has named the new one.
//
// A user with an access list needs the keys and channels that begin with the
// prefix, and these commands; INFO is asked for once and may be denied. Without
// -@dangerous, the user could also flush the databases of other applications:
//
//	ACL SETUSER jobs on >secret ~jobs:* &jobs:* +@read +@write +@connection +@pubsub -@dangerous
//		+client|id +client|unblock +cluster|slots +evalsha +script|load +script|exists +time +info
//
// In a Cluster, the name of a queue decides in which of 16 hash slots the queue is. These slots
// are evenly distributed over the nodes. So queues are spread over up to 16 nodes, one queue is
// as fast as one node, and a process needs at most 16 connections to wait for all its queues.
// While a slot is being moved, calls for its queues return ErrUnavailable.
//
// # Layout
//
// Every key of a queue is <prefix>:{<group>}:<queue>:<name>. Scripts get all their keys in
// KEYS and make up none. No key is named after a job, a worker or a unique key. The names are
// short, since each call carries them; scripts use the words in keys.go.
//
//	m      hash    the queue's record: layout version v, number of buckets B, the policy by the names of
//	               broker.Rules, size of the largest body over 4 KiB (big), bytes of jobs that are not active or ended
//	               (bytes), void entries (void), how far prune has removed them (swept), until when a watcher listens
//	               (watch), jobs that claims took while priorities go in rounds (turn). For limits and keys: the rules that
//	               claims go by (flow), counts of rates (bucket, retry_bucket), until when a claim was told to wait (told),
//	               how many pending jobs have a key (keyed), how often dead heads were to be skipped (skips). And the
//	               totals of what happened, by the names in totalNames
//	p…     string  exists if and only if enqueue_plain.lua may store jobs in the queue: the queue has as many buckets as
//	               the name says (p alone: one), no limit but of keys, and is not paused or ordered. Its value counts
//	               the jobs and bytes stored so that are not in the record yet: lib/sums.lua
//	b0…    hash    ID → creation time in µs (8 bytes) and broker.AppendBody: written once. The bodies are spread over
//	               these buckets by their IDs
//	h      hash    ID → broker.AppendHead and, if that has a tail, a byte of its checksum; a fresh job has no head,
//	               unless its handler keeps something
//	r1…r4  list    ready entries of pending jobs without a key, by priority: added on the left, taken on the right
//	ks     hash    pending jobs with a key: priority key → how many, the numbers of the first and the last piece of their
//	               ready entries, a newline, and the first piece: entries in order, each followed by a newline
//	kl     hash    the other pieces: priority key "\0" number → entries
//	k1…k4  sorted  a ring for each priority: keys that have pending jobs of that priority and may start one, by their
//	               pass. If a ring has keys, the jobs without a key are in it, too, as a key without a name
//	kb, kd sorted  all other keys with pending jobs, by when they may start one, or far in the future if no time is
//	               known; in kd the keys at which claims must look again, since a policy changed
//	ka     sorted  key "\0" ID of every active job with a key, in lexical order
//	kh     hash    key of an ordered queue → ID of its head; if the head is pending, then also "\np"; if it is dead, then
//	               also "\n" skips
//	kp     hash    key → numbers of its own policy
//	kr     hash    key → count of its rate
//	v      hash    priority and ready entry that an operator made void → how often it is in the ready list
//	z, y   sorted  entries of scheduled and of retry jobs by due time in µs
//	a      hash    ID → lease: priority and epoch ":" worker "\n" what the end of the job must free, with a field before
//	               that if a fresh job has a head. The lease of a held job has an empty worker
//	o      hash    ID of a held job, or of a job behind another one → the state that it had or will have, due time if
//	               it has one, ":" and the holder
//	c      hash    ID of an active job that is asked to cancel → its worker
//	d f g  sorted  IDs of dead, completed and cancelled jobs by the time of their end
//	dc     sorted  for each dead job: "t" type "\0" and "r" reason "\0", each followed by the time of death in 16 digits and
//	               the ID; and "m\0" followed by a block of last errors, each after its time and ID, see
//	               scripts/lib/errors.lua; in lexical order
//	ds     set     IDs of those dead jobs that are suppressed
//	u      hash    unique key → mode, end, ":" and the ID that holds it; then perhaps "\n" and the ID of the job
//	               behind it, which exists if o names it
//	ids    hash    IDs that callers gave and whose records are gone → until when they are refused; for a job that was
//	               moved to another store also "." and twenty zeros before its last epoch; for a job that replaced
//	               another one also ">" and the ID of the other
//	i, ke  sorted  key "\0" ID of jobs with a key, in lexical order: in ke jobs that ended, in i jobs that are scheduled,
//	               waiting or in retry; in i also key "\0" of each key with pending jobs or a policy
//	l      sorted  what lapses, by its time: r ID of a record, i ID of ids, u unique key, w worker of x
//	w      sorted  worker → until when its leases hold, or an earlier time: see below
//	s      hash    live worker → number and verdicts of its last settle
//	k      hash    worker → number of its leases
//	wi     hash    worker → broker.AppendWorkerInfo
//	x      hash    ended worker → when; kept for a day
//	n      hash    ended workers that still hold leases, which Reclaim is looking for
//	t      list    the wake token, which exists while a job can be claimed
//	tq     string  while t does not exist: when a job may next be claimable, or -1, " ", and until when to rely on that;
//	               claims of many queues write it for each other
//	e      channel settled jobs, while a watcher listens: lines of state and ID. In a database other than 0, its number follows
//	ec     channel IDs of active jobs that were asked to cancel, named likewise: e1c
//
// The queues of a group share these, at <prefix>:{<group>}:<name>:
//
//	w      sorted  worker → until when its leases hold in all queues of the group
//	k      hash    worker → in how many queues of the group it is registered
//	n      set     workers whose next renewal must ask each queue: a queue has ended the worker, or wants a job cancelled
//
// An entry is priority, epoch, ":" and ID and, if the job has a key, "\n" and the key. A ready entry is the ID for a job in
// epoch 0, otherwise byte 1, epoch, ":" and ID. <prefix>:queues is the set of the names of
// all queues, written before a queue's first job. Marks are in 16 groups
// <prefix>:marks:{00}: … with a hash h of marks, a sorted set l of the times
// at which they lapse, and the counter n of fences.
//
// Some reasons for this layout:
//
//   - A worker renews its leases in a group with one write, for any number of queues. A queue has its own time for the
//     worker, which is not later than the group's unless the clock was set back. Reclaim looks at workers for which either
//     time is over, and updates the queue's time from the group. A worker leaves the group when no queue of the group has
//     anything of the worker.
//   - The bucket of a body can be computed from its ID, in Lua too, since a claim learns IDs
//     only when it pops them. For ULIDs the bucket changes every tenth of a second, so jobs
//     that were enqueued together are in the same bucket. In a queue of a million jobs the
//     server then uses two small hashes at a time, which fit into its caches, and not all
//     parts of a large one. Other IDs, chosen by callers, are in b0. A call that names its
//     jobs gets only the keys of their buckets.
//   - A deleted, cancelled or rescheduled job leaves its entry in its ready list, since
//     removing it from the middle is slow. The entry is counted in v, and a claim that pops
//     it drops it. Epochs alone are not enough: a job that is enqueued again with the same
//     ID has the same entry.
//   - The ready entries of a key are a text in pieces of some 300 bytes, about ten jobs each, and not members of a sorted
//     set. So a claim of a hundred keys reads and writes the first piece of each key in two commands, and an entry takes
//     only the bytes of the ID. An operation removes the entry of a job with a key at once; it looks for the entry in the
//     first piece, in the last one, and then in all others.
//   - Turns of keys are strides. The key with the lowest pass in its ring is next, and its pass then rises by a million
//     divided by its weight. A key that enters a ring gets the lowest pass plus its stride, minus one. So its first turn
//     is after one turn of each other key and before their second turns, and a key gains nothing if it leaves and returns.
//   - A claim looks only at keys in the rings. If a key may not start a job when its turn comes, the claim moves it to kb.
//     It moves back when there is room for it or when its time comes. A change of the queue's policy renames kb to
//     kd in one step, and each claim moves back some hundred keys. So keys that wait cost nothing.
//   - Active jobs are counted by ka, a set of members, so that counting a job twice, or ending it twice, does no harm.
//   - Most jobs are claimed in the epoch in which they were enqueued, so most
//     ready entries are just the ID, which is what a claim needs.
//   - A release that raises a queue's layout version must delete p, and use another name for its own flag, since
//     enqueue_plain.lua of earlier releases does not check the version in the record. It must also add all workers to n
//     of the group, since renew.lua does not check records either.
//   - A held job has a lease without a worker. A program that does not know o treats it
//     as active, and does not touch it.
//   - A lease has the index of the body if that names something to free, so that a settle
//     need not trust its caller or read the body.
//   - Hashes and sorted sets that are used often have a guard, an entry of 65 bytes. It keeps
//     Redis from storing them in its compact form, in which each look-up is a scan: in a ring of a hundred keys, moving a
//     key took thirteen times as long. Guards of z, y and the rings are added with the first entry and removed after the
//     last one. Buckets need no guard, since nearly all bodies are longer. So an empty queue takes 3.5 KB.
//
// # Waiting
//
// A claim with a Wait that finds nothing waits for the tokens of its queues on a
// connection of its own. It sends the claim in the same write, after the wait. In a Cluster,
// one connection waits for the queues of each slot, and the claim follows later.
// [Broker.Claim] says what happens to jobs if the caller goes away.
//
// All watchers of a broker share one connection, in a Cluster too.
//
// # Repeats
//
// The body of a new job without options begins with the time of creation. It is the store's
// time, which this process read at most a second before, plus the time since.
//
// A call is sent again only if an answer says that it did nothing: the script is not
// loaded, or the queue is on another node, does not exist yet, or has another layout or a
// limit. That is why New copies the given client, without retries.
package redisbroker
