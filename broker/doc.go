// Package broker is the contract between the framework and a store of jobs: the interface [Broker], its requests and
// answers, the stored form of a job, and the rules below. Applications do not need it. The author of a backend
// implements Broker and proves it with package conformance, whose rules cite the sections.
//
// # States
//
// A job is in exactly one state at every instant that another client can observe. [Transitions] is the table of the
// legal steps; nothing else moves a job. Each call checks all preconditions of a job before it writes, and then writes
// everything or nothing of it.
//
//	            due                 claim               complete
//	scheduled -------> pending --------------> active -------------> completed
//	                    ^ ^ ^                   | | |
//	            redrive | | | release, crash    | | +- cancel -> cancelled
//	dead ---------------+ | +-------------------+ +- die ------> dead
//	                  due |                     |
//	                    retry <-----------------+ retry, snooze
//
// Cancelling a scheduled, pending, retry or waiting job makes it cancelled. Holding a scheduled, pending or retry job
// makes it waiting; unholding restores its state. A job that runs after the holder of its unique key (§41) is waiting,
// too.
//
// # Identity and record
//
// §1 Names. A job is addressed by queue and ID; IDs and unique keys belong to their queue. Enqueue refuses an ID with
// ErrDuplicate while a record of it exists. If Body.GivenID was set, it also refuses the ID for Policy.DuplicateSpan
// after the record is gone. It refuses the ID of a job that replaced another one (§39) for the same time.
//
// A queue exists from the first Enqueue, Renew with Register, or change of its Policy that names it, until
// OpRemoveQueue. That operation refuses a queue that has jobs in any state or live workers. It removes everything else
// of the queue: policy, remembered IDs, unique windows, ended workers.
//
// §2 Body and head. The body is what the producer wrote; the head is what transitions write. Payload, headers and
// result come back byte for byte, also when they are empty or not valid UTF-8 (an empty payload may come back nil).
// Durations and times come back to the microsecond, rounded up. Only OpEdit (§28) and a replacing job (§39) change a
// body. An Enqueue with the ID of a stored job answers ErrDuplicate, with that ID as Holder, and changes nothing.
//
// §3 Epochs. Every transition raises the job's epoch by one, except claim and due: a lease has the epoch that the claim
// found. These are not transitions: a request to cancel an active job, keep, suppress, unsuppress, and the edit of a
// job that is not dead.
//
// A lease, an entry or a Ref that names another epoch than the job's is void. A lease is identified by worker and
// epoch. Claims discard void entries of the structures that they read, a bounded number in each call, and then say
// More. A void Ref answers ErrWrongState.
//
// §4 Stored form. Headers, results and errors are stored in this package's encoding ([AppendBody], [AppendHead]), never
// in a store's text or JSON type. A body that is malformed, or of a newer version, harms no other job: it is claimed
// and found like any job, with Job.Broken set, and can be settled.
//
// §5 Layout. A queue's record holds the version of its layout, and every call that concerns the queue checks it first.
// If the backend does not know the layout, the call answers ErrNewerForm, and nothing in that queue changes. Enqueue,
// Claim, Settle and Operate over several queues serve the others: each receipt, verdict and result has the error of its
// own queue. Other calls may serve the others, or refuse the whole request.
//
// # Workers and leases
//
// §6 Workers. A worker exists from its Renew with Register until it retires or a Reclaim finds that it ran out. From
// then on its ID is ended: Renew answers Lost, with or without Register; Claim and Reclaim answer ErrWorkerGone and
// lease nothing, also when they execute late. A claim checks this queue by queue, in the atomic step that leases. It
// may skip the check of a queue that has nothing to give, or that it did not reach.
//
// An ID stays ended for EndedWorkerSpan, and while it has a lease; then Prune forgets it. Registering an ID that is
// alive renews it. The store keeps what a worker says of itself until Describe changes it. When Renew answers Lost, the
// rest of the answer means nothing, and the worker may have been renewed in other queues.
//
// §7 Count of leases. Renew answers how many leases the store counts for the worker, by queue. So a worker notices that
// the answer to a claim was lost; it then lists its leases (Query.Worker) and releases those that it does not know. Held
// may be nil, which says nothing, if counting failed, or if no call of this Broker within the last minute can have
// changed the count; but a worker's leases are counted at least every three minutes. When a caller abandons a claim that
// still waits, no lease is left behind.
//
// §8 Running out. A worker's leases hold until its last Renew plus its Lease: before that time it is alive, at that
// time it is not ([WorkerInfo.Alive]). It may still renew, claim and settle until a Reclaim has found it.
//
// Reclaim ends the ID of each worker that ran out in the named queues, and leases its jobs to the caller, possibly over
// several calls. That is a transition: it voids the old lease, which held until then. A reclaimed job is active under
// its new lease, not in the queue, until it is settled; it is reclaimed again if that worker runs out. Of its head only
// the epoch changes: the outcome charges the crash.
//
// A Reclaim by a worker whose own leases ran out only answers ErrWorkerGone. Over several queues this holds queue by
// queue, and jobs come together with the error. Renew answers when the next leases run out; before that time no Reclaim
// is needed. A store that keeps the times of several queues together may answer with the time of leases in other
// queues: then a Reclaim finds nothing, and later answers leave these leases out.
//
// §9 Charges. [Outcome.Apply] says what an outcome charges: Deliveries counts leases that ended; Failures, Crashes and
// Snoozes count what the outcomes charged. No backend invents a retry, a delay or a verdict. The outcome changes the
// item's Head or the stored one: while the lease holds they are the same, except for what was kept (§31). A snooze with
// a cause (Outcome.Because) also counts in Head.PutOffs how many of its kind came.
//
// §10 Settle. An item applies if the job is active under that worker and epoch, and answers ErrLeaseLost otherwise;
// neither affects other items. It leads to Outcome.State, or to Outcome.IfCancelRequested if the job was asked to
// cancel. A settle by an ended worker applies to leases that nobody has reclaimed.
//
// A request with the Number of the worker's last request gets the same verdicts again, whatever its items are. A
// request with a lower number changes nothing, and every verdict is ErrLeaseLost. Numbers are compared queue by queue,
// and forgotten with the worker.
//
// §11 Final states. A completed or cancelled job keeps its record for Body.Retention, or else for the
// Policy.RetainCompleted.Age in force when the job ends; with neither, the record is gone in the same step. Dead jobs
// are kept until an operator, or Policy.RetainDead, removes them.
//
// §12 Retire. Retire ends the worker's ID and releases all its leases: as Outcome Release does, or as Cancel does for a
// job that was asked to cancel. It also ends an ID that was never registered, since the registration may arrive late.
// It lists the jobs that went back to their queues, with their new epochs. It leaves out a queue that does not exist.
//
// # Claims
//
// §13 Bytes. A Claim or a Reclaim adds no further job once the jobs of the answer have Bytes bytes; then it says More
// if something was left. So the first job is always given, however large, and an answer is smaller than Bytes plus one
// job. Payload and headers count at least; a backend may count all that is stored of a job. A backend that asks its
// queues separately divides Bytes among them and gives the first job of each.
//
// §14 Several queues. Shares are served in order, each up to its Max, until the claim has ClaimRequest.Max jobs. A
// backend that cannot serve all of them in one step may give less, and says More when asking again can help. A claim
// that gives nothing and says no More found nothing in any of them, and knows when the next job of each is due.
//
// A queue that fails does not keep back what another queue gave: those jobs come together with the error. A step that
// failed gives nothing, even if a part of its answer arrived: the store may have undone the step, and then nobody holds
// those jobs.
//
// §15 Time. The time of a call is the request's Now, or else the store's clock. Leases, windows and retention are
// stored and compared with it, never with a caller's clock, and never by a store's own expiry. CreatedAt is of the same
// clock. Times are microseconds, and due times round up. Nothing is claimed before its RunAt, and what is due is
// claimable from that instant, without any sweep. What holds until a time still holds just before that time, and has
// lapsed at that time. A request with a Now never waits.
//
// §16 Order. Within a queue, lower Priority numbers go first. With Policy.PriorityRound n, of each n jobs in a row that
// claims lease from the queue, at least one is of each priority that had pending jobs all the while. The others are the
// most urgent. A backend counts the jobs in the store, or in each handle.
//
// Within a priority, the jobs of one key, and those without a key, are claimed in the order in which they became
// pending; a batch keeps its order. Keys take turns (§34). Three kinds of jobs go to the front, where they have no
// order among themselves: released jobs, crashed ones without a delay, and unheld ones that were pending. Due, retried,
// rescheduled and redriven jobs go to the back.
//
// A due job counts as pending from the first call that sees it due, a claim or another one. If one call sees several,
// they are ordered by due time. A claim may make a bounded number of due jobs pending, the earliest first, and then
// says More.
//
// §17 Waking. A claim that waits returns soon after a job becomes claimable in one of its queues: by enqueue, settle,
// retire, resume, redrive, reschedule or unhold. When a job becomes due, one of the claims that wait returns soon; the
// others need not look. When that claim has taken all it may, another one looks when the next job becomes due. If its
// process dies, the next claim finds what is due. When a job gets a due time that is earlier than the NextDue that a
// waiting claim knows, one such claim returns soon and says so.
//
// Jobs that become claimable in one call wake about as many claims, in any processes. If a claim stops waiting, the
// others can still be woken. A paused queue wakes no claim until it is resumed; until then no claim says More for it,
// or a NextDue that has passed.
//
// A wake-up is a hint: a claim may wait although there is a job, for at most its Wait, and a claim made later finds
// everything. There are two exceptions. A claim may skip jobs that another call is working on until that call ends,
// even if its caller is gone. And when a claim that was woken for some queues is cut off, a later claim of several
// queues may skip these queues for some seconds.
//
// # Enqueue
//
// §18 Items. Each item is accepted or refused on its own, in order: it sees the effect of those before it in the
// request. The checks come in this order: validity, ErrDuplicate by ID, ErrQueueFull (of the queue by count, by bytes,
// of the key), ErrDuplicate by unique key. For a job that may replace another one (§39) the unique key comes before
// ErrQueueFull.
//
// §19 Uniqueness. Unique.Mode says how long a job holds its unique key, and TTL bounds that from the enqueue. Another
// job with the key is refused with ErrDuplicate and the holder's ID, unless its Unique.Conflict says otherwise (§39 to
// §41). The step that ends the job, or starts it for UniqueUntilStarted, frees the key if that job holds it. A refused
// enqueue leaves no key behind. Redrive takes a key of mode UniqueUntilDone again, for its TTL, or is refused with
// ErrDuplicate and the holder's ID.
//
// §20 Depth. Policy.MaxDepth bounds the pending, scheduled and waiting jobs of the queue. Retries do not count and are
// never refused. Concurrent batches may overshoot the limit.
//
// # Operating
//
// §21 Pages. A page examines at most Query.Limit records, and may return fewer jobs, or none, with a Cursor. A query
// selects the jobs that match all fields that it sets. A job that matches during the whole listing is shown at least
// once, unless the time by which it is listed changes meanwhile. A listing by key may miss jobs that become pending
// meanwhile. A job leaves all listings with its record.
//
// Pending, active and waiting jobs are listed in any order, scheduled and retry jobs by due time, and final ones by
// their end. The earliest come first, or the latest with Newest, which leaves out jobs that end meanwhile. A cursor of
// another query is refused, or gives some page. Find, Queues and Prune leave out queues that do not exist.
//
// §22 Operations. Each Ref is decided on its own, in order: done, ErrNotFound, or ErrWrongState (the table forbids it,
// or the Ref's epoch has passed). A refusal answers the job's state; its error is that of [Operation.Decide], or of
// [QueueInUse]. A job that was deleted or cancelled while pending is never claimed. Cancelling an active job sets
// CancelRequested, sends EventCancel, and shows in Renewed.Cancel until the lease ends; repeating it is harmless.
//
// §23 Counts and pruning. Counts are exact, or true as of AsOf; they never need a scan. Suppressed says how many of the
// dead jobs in Counts are suppressed. OldestPending says, for each priority that has pending jobs, when the job that is
// claimed next was created, so that a starving priority shows. To look for the oldest jobs, or to count the leases of
// workers, can become expensive for a store. Then it may answer with what it saw up to a minute ago, unless the request
// has a Now.
//
// Prune removes completed and cancelled records that are past their time, and those over the count, earliest end first.
// The count is of both states together. It removes dead jobs by RetainDead, and whatever else has lapsed: remembered
// IDs, unique windows, ended workers, marks.
//
// # Marks, events, clients
//
// §24 Marks. At most one owner holds a mark at a time, and a mark lapses at Until. A Take by the same owner renews it
// and keeps its value. Every Take that holds gets a higher fence than any before, also after the mark lapsed or was
// dropped. Keep, Set and Drop need the owner and the latest fence; otherwise they change nothing, and answer Held false
// with the holder. So a former owner can no longer change the mark. After a drop, and while nobody holds a mark, all
// but Held in the answer is zero.
//
// §25 Watch. When Watch has returned, it sees the events of all later calls. EventSettled says to which state a settle
// or a Retire took a job, even if no record is left, and that an OpCancel ended one; no other step sends it. Each event
// is sent at most once. A slow watcher loses some events and learns how many (EventMissed). Events of different jobs
// arrive in any order. A caller that waits for a job watches, looks, waits, and looks again at intervals.
//
// §26 Several clients. All of this holds for any number of brokers on one store at once, and for one broker used from
// any number of goroutines.
//
// # Moving and editing
//
// A backend with Limits.NoMove declines this part as a whole: it has no waiting jobs, and restores none.
//
// §27 Holding. OpHold takes a pending, scheduled or retry job out of everything that claims read, into state waiting,
// in one step. Such a job is not claimed and does not fall due. It keeps body, head and unique key, and shows Holder,
// HeldFrom and, if it had one, RunAt. Holding it again for the same Holder succeeds and changes nothing, whatever the
// Ref's epoch is. For another Holder it answers ErrWrongState and names the holder.
//
// OpUnhold restores the job's state: a pending job goes to the front of its queue, others keep their time, which may
// have passed. Every refusal of an operation on a held job names its holder. OpUnhold and OpDelete with a Holder answer
// ErrWrongState for a job that another holder has.
//
// §28 Editing. OpEdit replaces the payload of a job that is pending, scheduled, in retry or dead, in one step.
// Everything else in the stored body stays, fields of a newer version too. A body that this program cannot read answers
// ErrNewerForm or ErrMalformed. A job that is not dead keeps its position and its epoch; a claim gets one payload or
// the other, whole. The epoch of a dead job rises, so that a decision by an earlier copy is refused. A held job answers
// ErrWrongState and names its holder, who may have copied it.
//
// §29 Restoring. A NewJob with Restore is stored as it was elsewhere: in its state, with its CreatedAt and its Head.
// The epoch rises by one, so that no Ref from elsewhere matches. A job in retry keeps its time, which may have passed;
// a pending or scheduled one becomes pending or scheduled by its time. A unique key is held for its TTL from the
// restore. Completed and cancelled jobs are kept for their retention from the time of their end; when that is over, the
// receipt is the same and nothing is stored.
//
// The checks are those of §18, with two exceptions: ErrQueueFull refuses only pending and scheduled jobs, and a job
// that ended, or that freed its unique key by starting, takes none. An ID that exists answers ErrDuplicate, so that a
// repeat is harmless. But while the job with that ID, which may be the original itself, is held, the answer is
// ErrWrongState and names the holder. OpDelete with a Holder remembers a given ID (§1) with the job's epoch: then the
// ID is refused, except for a job restored with a later epoch. So a job can come back, and a late repeat cannot.
//
// # What handlers keep
//
// §30 Keep. An item of a Settle whose outcome is Keep stores what a handler kept, in the job's head: a checkpoint and
// the results of steps, together at most MaxKept bytes, and its progress. It replaces all that was kept before. It is
// fenced, numbered and answered like any item (§10), with StateActive. It changes nothing else: neither the lease, the
// epoch, the charges, a unique key, marks or counts, nor a request to cancel, which still shows in Renewed.Cancel. It
// sends no event and wakes no claim. Repeating it is harmless. If a request has several items for one lease, the Keeps
// before the item that ends the lease apply, in order; the items after it answer ErrLeaseLost.
//
// §31 Kept. What was kept stays with the job through every transition but one: Complete drops checkpoint and steps, and
// leaves the progress. So a job that is retried, released, reclaimed, redriven or restored has it; claims, reclaims and
// Find give it with the job, with NoPayload too. Outcome.With replaces it. After a Keep, the caller must add what it
// kept last to the outcome that ends the lease. Without With, the outcome leaves what the item's Head has, or what is
// stored. Retire leaves what is stored.
//
// # Limits, keys and order
//
// A backend with Limits.NoFlow declines this part as a whole: it has none of these rules, no policies of keys, and
// serves jobs with a key like all others.
//
// §32 Limits of a queue. Policy.MaxActive bounds the active jobs of the queue, over all workers and counted from
// leases: a claim leases no more than the limit allows. Policy.Rate bounds the jobs that claims lease: in any span of
// Per at most Jobs + Burst, counted by [Bucket] with the queue's clock. A lease counts once, also when its answer was
// lost; a job that is released or crashes and is claimed again counts again. A Reclaim starts nothing.
//
// Policy.MaxBytes bounds the bytes (§13) of the jobs that are pending, scheduled, waiting or in retry: an Enqueue that
// finds as many or more is refused with ErrQueueFull, after the check of MaxDepth. Concurrent batches may overshoot it.
// QueueInfo.Bytes says how many they are (§23).
//
// §33 Keys. A key can have a policy of its own (PolicyRequest with Key): paused, max depth, max active, rate, weight.
// Each of these that is not zero replaces what the queue's policy says of each key (KeyMaxDepth, KeyMaxActive,
// KeyRate). The policy exists without jobs, until its last rule or the queue is removed. [Operator.Keys] lists the keys
// that have a policy, or jobs that have not ended, by their bytes. A job without a key has no limit of a key, and
// counts for none.
//
// §34 Turns. Within a priority, keys take turns: each key that has pending jobs of the priority and may start one gets
// one job before any has a second. A key of weight w has w turns where another has one. The jobs without a key take
// turns as one more key, of weight 1. A key that becomes able to start a job while others have their turns has its
// first turn after at most one round of the others. In a round, each key gets as many jobs as its weight. Within a key
// and a priority the order is that of §16.
//
// After a change of a policy, the turns may start from the beginning, and claims may skip keys until one of them says
// no More. Turns are counted in the store or in each handle. A call that runs at the same time as others may skip keys
// that another call is working on.
//
// §35 Limits of a key. KeyMaxActive and KeyRate, or MaxActive and Rate of the key's own policy, bound for each key what
// §32 bounds for the queue. The pause of a key keeps all its jobs back. A claim skips the keys that may start nothing,
// at a cost that does not depend on how many there are or how many jobs they have. KeyMaxDepth bounds the jobs of the
// key that are pending, scheduled, waiting or in retry: an Enqueue that finds as many is refused with ErrQueueFull, and
// the Error's Field is "key".
//
// §36 Ordered queues. With Policy.Ordered the jobs of a key are claimed one after the other, in the order in which they
// became pending. A claimed job is the key's head until it ends, and while a key has a head, only the head is claimed.
// So a head in retry, snoozed, released, rescheduled or held keeps its key back; when it is due or released it is the
// first of its key. With OrderStop a dead head keeps its key back until it is redriven, which puts it first again, or
// its record is gone. With OrderSkip, also when that is set later, a dead job is no head. Completed, cancelled and
// deleted jobs are no heads.
//
// An Enqueue into an ordered queue refuses, as ErrInvalid, a job without a key and one of another than the normal
// priority ([Policy.Admit]). Such jobs that were there before, or are restored, are claimed as in other queues, but
// after their key's head. Without the rule there are no heads. Jobs that are active when the rule is set are no heads,
// but the others wait for them, as with a KeyMaxActive of 1.
//
// §37 What a limit keeps back. A job that a limit keeps back stays pending: nothing of it is charged or changed, and it
// uses nothing of one limit while it waits for another. It makes no claim say More, and wakes none. What makes the job
// claimable wakes a waiting claim (§17): an end of a lease, a change of a policy, a redrive or a deletion of a head. If
// only time does that, NextDue is that time or earlier. For waking (§17) the job becomes due then.
//
// Limits hold exactly at every instant, whatever calls run at once, whatever answer is lost and whichever worker dies.
// A change of a policy counts for claims that begin after it, and takes back no lease.
//
// §38 Rate of retries. Policy.RetryRate bounds how many jobs in retry become pending because they are due, as Rate does
// for claims. Due jobs over the rate stay in retry, and NextDue says when the next may become pending. Other jobs are
// claimed before them.
//
// # Meeting a held key
//
// A job meets a held key if another job holds its unique key when it is enqueued. A backend with Limits.NoMove declines
// this part as a whole. A held key refuses a job with Restore, whatever its Conflict.
//
// §39 Replacing. A job that meets a held key, and whose Conflict is not to refuse, replaces what the holder's handler
// reads: payload and its reference, type version, headers, correlation ID, idempotency key. The holder must be pending,
// scheduled or in retry, and of the same type. This is one step, as OpEdit (§28): the holder keeps its position, its
// epoch, its key and all else. A claim gets either all of the old or all of the new.
//
// The new job is not stored, and a full queue does not refuse it. Its receipt has no error, and says Replaced and the
// holder's ID, state and time. Its own ID is then refused for Policy.DuplicateSpan, like an ID with GivenID. A repeat
// of the new job changes nothing, and answers Replaced and the holder's ID again, without a state. Another job with
// that ID is refused.
//
// The new job is refused with ErrDuplicate if the holder is in another state or of another type, or if its record is
// gone before its window lapsed. It is refused with ErrNewerForm or ErrMalformed if the holder's body cannot be read.
// The receipt names the holder. A later job with the ID of a holder that is gone is not the holder.
//
// §40 Debouncing. With ConflictDebounce a pending or scheduled holder also gets the new job's time, by its Delay or
// RunAt, but at most the holder's CreatedAt plus the new job's Unique.Latest. As with OpReschedule, the epoch rises. A
// holder that is pending or due, and whose new time has come, keeps its position and its epoch. A holder in retry keeps
// its time.
//
// §41 Keeping the last. With ConflictKeepLast or ConflictDebounce, a job that meets an active holder is stored, and
// runs after it, if the Mode of both is UniqueUntilDone. Until the holder ends, the job is waiting: its Holder is what
// [Behind] returns for the holder's ID, and HeldFrom and RunAt say what it becomes. The step that ends the holder, in
// whatever way, makes the job pending at the back, or scheduled, raises its epoch, and gives it the key.
//
// At most one job waits behind another. A further job whose Conflict is not to refuse replaces the waiting one,
// whatever the holder's state is, and ConflictDebounce moves its RunAt, in the same epoch. Once a job has waited, no
// TTL counts, neither its own nor the holder's, which keeps the key until it ends. A waiting job counts for MaxDepth,
// and a full queue refuses it. OpCancel and OpDelete end it. OpHold, OpUnhold, and OpDelete with a Holder answer
// ErrWrongState and name its Holder.
//
// # Totals
//
// §42 Totals. A queue counts what happens in it, from when it was made; [Totals] names what it counts. Each number is
// raised once, in the step that causes it: an answer that is repeated (§10), or a refusal, counts nothing. So no number
// falls while the queue exists. They are exact, or true as of AsOf, like the counts (§23). A lease counts as claimed
// once, also when its answer was lost; a Reclaim claims nothing, and a crash counts in the outcome that charges it.
// Restoring counts nothing (§29), nor does a job that replaced another one (§39). OpCancel and Retire count the jobs
// that they cancel.
//
// §43 Waits and runs. An item of a Settle that ended a lease adds its Waited and its Ran, as its caller measured them.
// A Waited that is not zero counts as one wait, and a Ran that is not zero as one run. Keep adds none.
//
// # Several stores
//
// §44 Shards. A backend with Limits.Shards spreads the jobs of each queue over that many stores. All jobs of a key are
// in one of them, whatever their queues, and so are all jobs without a key that have one unique key. Every section
// holds within each store, and over all of them with these exceptions:
//
//   - §1, §19: an ID, and a unique key, is refused where a job with the same key holds it. A
//     job without a key is found by its unique key, or else by its ID.
//   - §8: a worker that ran out may be ended in one store before others.
//   - §10: numbers are compared store by store.
//   - §13, §14, §16, §34: jobs in different stores have no order among themselves, nor do
//     shares. A claim that gave jobs may say More for stores that it did not ask.
//   - §20, §32, §38: each store has a part of a limit of the queue, and refuses or keeps
//     back what is over its own part. Parts may move between stores; the backend says
//     how exact the whole then is. A limit of less than one for each store is refused with
//     ErrUnsupported. So are bounds of records by count (§23).
//   - §22: whether a queue is in use is asked of one store after the other.
//
// If a call fails in one of the stores, it answers for the others, together with an error; Renew and Watch succeed.
package broker
