// Package redisbroker is the broker that keeps its jobs in Redis 6.2 or newer,
// or in Valkey: on one server, in a group with Sentinels, or in a Cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	b, err := redisbroker.New(ctx, client, redisbroker.Config{})
//
// # What the server needs
//
// maxmemory-policy noeviction: New warns of policies that may evict jobs. A
// full server refuses new jobs with ErrUnavailable, while workers go on: scripts that
// claim, settle, renew or release begin with a removal, after which Redis
// lets a script finish. A crash of the server can lose what its
// persistence loses (appendonly with everysec: about a second). A failover
// loses what was not replicated yet, except new jobs with [Config.Replicas]. After a
// failover by Sentinels nothing is sent to the old master once the
// Sentinel that the client listens to has named the new one.
//
// A user with an access list needs the keys and channels that begin with the
// prefix, and these commands; INFO is asked for once and may be denied:
//
//	ACL SETUSER jobs on >secret ~jobs:* &jobs:* +@read +@write +@connection +@pubsub +evalsha +script|load +time +info
//
// In a Cluster the name of a queue decides in which of 16 hash slots it is, which lie evenly
// over the nodes. So queues spread over up to 16 nodes, one queue is as fast as one node,
// and a process waits for all its queues on 16 connections at most. While a slot is being moved,
// calls for its queues answer ErrUnavailable.
//
// # Layout
//
// Every key of a queue is <prefix>:{<group>}:<queue>:<name>. Scripts get all their keys
// declared. They build none, and no key is named after a job, a worker or a unique key.
// The names are short, since each call carries them; scripts use the words in keys.go.
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
//	h      hash    ID → broker.AppendHead and, where that has a tail, a byte of its checksum; a fresh job has none,
//	               unless its handler keeps something
//	r1…r4  list    ready entries of pending jobs without a key, by priority: added on the left, taken on the right
//	ks     hash    pending jobs with a key: priority key → how many, the numbers of the first and the last piece of their
//	               ready entries, a newline, and the first piece: entries in order, each followed by a newline
//	kl     hash    the other pieces: priority key "\0" number → entries
//	k1…k4  sorted  rings by priority: keys that have pending jobs of it and may start one, by their pass. While there
//	               are some, jobs without a key are one of them, without a name
//	kb, kd sorted  all other keys with pending jobs, by when they may start one, or far in the future where no time is
//	               known; in kd those that claims have to look at again, since a policy changed
//	ka     sorted  key "\0" ID of every active job with a key, in lexical order
//	kh     hash    key of an ordered queue → ID of the job that the others come after; of one that is pending also "\np", of
//	               one that died "\n" skips
//	kp     hash    key → numbers of its own policy
//	kr     hash    key → count of its rate
//	v      hash    priority and ready entry that an operator made void → how often it stands in r
//	z, y   sorted  entries of scheduled and of retry jobs by due time in µs
//	a      hash    ID → lease: priority and epoch ":" worker "\n" what the job's end has to free, with a mark before
//	               that if a fresh job has a head. The lease of a held job has an empty worker
//	o      hash    ID of a held job, or of one behind another → state that it was in, or is to have, due time if
//	               it has one, ":" and who holds it
//	c      hash    ID of an active job that is asked to cancel → its worker
//	d f g  sorted  IDs of dead, completed and cancelled jobs by the time of their end
//	dc     sorted  "t" type "\0" and "r" reason "\0", each before the time of death in 16 digits and the ID, of each dead
//	               job; and "m\0" before a block of last errors, each behind time and ID: scripts/lib/errors.lua; in
//	               lexical order
//	ds     set     IDs of those dead jobs that are suppressed
//	u      hash    unique key → mode, end, ":" and the ID that holds it; then perhaps "\n" and the ID of the job
//	               behind it, which exists if o names it
//	ids    hash    IDs given by callers whose records are gone → until when they are refused; of a job that
//	               went elsewhere also "." and twenty zeros before its last epoch; of one that replaced another
//	               also ">" and that one's ID
//	i, ke  sorted  key "\0" ID of jobs with a key, in lexical order: in ke those that ended, in i those that are scheduled,
//	               waiting or in retry; in i also key "\0" of each key with pending jobs or a policy
//	l      sorted  what lapses, by its time: r ID of a record, i ID of ids, u unique key, w worker of x
//	w      sorted  worker → until when its leases hold, or an earlier time: see below
//	s      hash    live worker → number and verdicts of its last settle
//	k      hash    worker → number of its leases
//	wi     hash    worker → broker.AppendWorkerInfo
//	x      hash    ended worker → when; kept for a day
//	n      hash    ended workers that still hold leases, which Reclaim is looking for
//	t      list    the wake token, there as long as something can be claimed
//	tq     string  when a job may be claimable next while t is not there, or -1, " ", and until when to believe that;
//	               claims of many queues write it for each other
//	e      channel what is settled, while a watcher listens: lines of state and ID
//	ec     channel IDs of active jobs that were asked to cancel
//
// The queues of a group share these, at <prefix>:{<group>}:<name>:
//
//	w      sorted  worker → until when its leases hold in all queues of the group
//	k      hash    worker → in how many queues of the group it is registered
//	n      set     workers whose next renewal asks each queue: one has ended them, or a job of theirs is to be cancelled
//
// An entry is priority, epoch, ":" and ID and, where the job has one, "\n" and its key. A ready entry is the ID of a job in
// epoch 0, and otherwise byte 1, epoch, ":" and ID. <prefix>:queues is the set of all
// queues' names, written before a queue's first job. Marks are in 16 groups
// <prefix>:marks:{00}: … with a hash h of marks, a sorted set l of the times
// at which they lapse, and the counter n of fences.
//
// Some decisions that the layout shows:
//
//   - A worker renews its leases in a group by one write, however many queues it serves there. A queue keeps a time of
//     its own, never later than the group's: Reclaim looks only at workers whose time in the queue is over, and brings
//     that up to the group's. A worker leaves the group when no queue of it has anything of the worker.
//   - The bucket of a body follows from its ID, in Lua too, since a claim learns IDs
//     only when it pops them. Of a ULID it is the next one every tenth of a second:
//     jobs that come together leave together, and in a queue of a million jobs the
//     server looks into two small hashes at a time, which its caches hold, and not
//     all over a large one. Other IDs, chosen by callers, are in b0. A call
//     that names its jobs is given their buckets alone.
//   - A deleted, cancelled or rescheduled job leaves its entry in its ready list,
//     which has no cheap removal from the middle. The entry is counted in v, and
//     a claim that pops it drops it. Epochs alone would not do: a job that is
//     enqueued anew under the same ID has the same entry.
//   - The ready entries of a key are a text in pieces of some 300 bytes, about ten jobs each, and not members of a sorted
//     set: a claim of a hundred keys reads and writes the first piece of each in two commands, and an entry takes
//     the bytes of the ID. An operator's decision removes the entry of a job with a key at once; it is looked for in the
//     first piece, the last, and then all others.
//   - Turns of keys are strides. The key with the least pass in its ring goes next, and its pass rises by a
//     million over its weight. A key that enters gets that much more than the least pass, less one: so it comes after
//     one turn of each other key and before their second ones, and gains nothing by leaving and coming back.
//   - A claim looks only at keys in the rings. A key that may not start a job is found in its turn and moves to kb; what
//     makes room for it, or its time, moves it back. A change of the queue's policy renames kb to
//     kd, in one step; claims move back some hundred keys each. So keys that wait cost nothing.
//   - Active jobs are counted by ka, a set of members, so that counting one twice, or ending one twice, changes nothing.
//   - Most jobs are claimed in the epoch in which they were enqueued, so their
//     ready entries are what a claim needs: the ID.
//   - A release that raises a queue's layout deletes p, and gives its own flag another name: enqueue_plain.lua
//     of the release before does not look at the record, whatever version that has. It also adds
//     all workers to n of the group: renew.lua does not look at records either.
//   - A held job has a lease without a worker. A program that does not know o takes it
//     for active, and leaves it alone.
//   - A lease carries the index of the body when it names something to free, so
//     that a settle need not trust its caller nor read the body.
//   - Hashes and sorted sets on the hot path hold a guard, an entry of 65 bytes,
//     that keeps them out of the compact form in which each look-up is a scan. A ring of a hundred keys in that form
//     took thirteen times as long to move a key. Guards of z, y and the rings come with the first entry and leave after
//     the last; bodies need none, since nearly all are longer. So an empty queue takes 3.5 KB.
//
// # Waiting
//
// A claim with a wait that finds nothing waits for the tokens of its queues on a
// connection of its own, with the claim pipelined behind. In a Cluster, a connection waits
// for the queues of each slot, and the claim follows. [Broker.Claim] says what happens to
// jobs when the caller goes away.
//
// All watchers of a broker share one connection, in a Cluster too.
//
// # Repeats
//
// The body of a new job without options begins with the time of creation, by the store's
// clock as this process read it at most a second before.
//
// A call is sent again only after an answer that says that it did nothing: the script is
// not loaded, the queue is on another node, does not exist yet, has another layout or a limit.
// New therefore copies the given client, with retries off.
package redisbroker
