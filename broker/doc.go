// Package broker is the contract between the framework and a store of jobs: the interface
// [Broker], its requests and answers, the stored form of a job, and the rules below.
// Applications do not need it. An author of a backend implements Broker and proves it with
// package conformance, whose rules cite the sections.
//
// # States
//
// A job is in exactly one state, and in exactly one place of the store, at every instant
// that another client can observe. [Transitions] is the table of the legal steps; nothing
// else moves a job. Each call checks all its preconditions before it writes anything, and
// for each job it writes everything or nothing.
//
//	            due                 claim               complete
//	scheduled ───────▶ pending ──────────────▶ active ─────────────▶ completed
//	                    ▲ ▲ ▲                   │ │ │
//	            redrive │ │ │ release, crash    │ │ └─ cancel ─▶ cancelled
//	dead ───────────────┘ │ └───────────────────┤ └─ die ──────▶ dead
//	                  due │                     │
//	                    retry ◀─────────────────┘ retry, snooze
//
// Cancelling a scheduled, pending, retry or waiting job makes it cancelled. Holding a
// scheduled, pending or retry job makes it waiting; unholding makes it what it was. A job
// that is to run after another one with its unique key is waiting, too.
//
// # Identity and record
//
// §1 Scope. A job is addressed by queue and ID; IDs and unique keys are those of their
// queue. An ID is refused with ErrDuplicate while a record of it exists. An ID with
// Body.GivenID is refused for Policy.DuplicateSpan more, however the record went; so is that
// of a job that replaced another (§50). A queue exists from the first Enqueue, Renew with
// Register, or change of its Policy that names it, until OpRemoveQueue, which refuses a
// queue that has jobs in any state or live workers. OpRemoveQueue forgets all else of the
// queue: policy, remembered IDs, unique windows, ended workers.
//
// §2 Body and head. The body is written once and comes back unchanged: payload, headers and
// result byte for byte, also when they are empty or not valid UTF-8 (an empty payload may
// come back nil); durations and times to the microsecond, rounded up. OpEdit alone changes
// it (§28). The head is what transitions write. An Enqueue with the ID of a stored job
// answers ErrDuplicate, with that ID as Holder, and changes nothing.
//
// §3 Epochs. Every transition raises the job's epoch by one, except two: claim (the lease is
// of the epoch that it found) and due. To ask an active job to cancel, to keep, to suppress,
// to unsuppress, and to edit a job that is not dead are no transitions. What names another
// epoch than the job's is void: a lease, which is identified by worker and epoch; an entry
// of a structure that claims look at, which they discard, a bounded number a call (then they
// say More); a Ref, which answers ErrWrongState.
//
// §4 Stored form. Headers, results and errors are stored in this package's encoding
// ([AppendBody], [AppendHead]), never in a store's text or JSON type. A body that is
// malformed, or of a newer version, harms no other job: it is claimed and found like any
// job, with Job.Broken set, and can be settled.
//
// §5 Layout. A queue's record holds the version of its layout, and every call that concerns
// the queue checks it first. A layout that the backend does not know answers ErrNewerForm,
// and nothing in that queue changes. Of a call over several queues, Enqueue, Claim, Settle
// and Operate serve the others: each receipt, verdict and result has the error of its own
// queue. Other calls may serve the others, or refuse the whole.
//
// # Workers and leases
//
// §6 Workers. A worker exists from its Renew with Register until it retires or a Reclaim
// finds that it ran out. Then its ID is ended: Renew answers Lost, with or without Register;
// Claim and Reclaim answer ErrWorkerGone and lease nothing, also when they execute late.
// Claim checks this queue by queue, in the atomic step that leases; of several queues it may
// leave out one that has nothing to give, or that it did not come to. An ID stays ended for
// EndedWorkerSpan, and while it has a lease; then Prune forgets it. Beside Lost the rest of
// the answer means nothing, and the other queues may have been renewed or not. Registering an
// ID that is alive renews it. What a worker says of itself is kept until Describe changes it.
//
// §7 Held. Renew answers how many leases the store counts for the worker, by queue. So a
// worker notices that the answer to a claim was lost; it then lists what it holds
// (Query.Worker) and releases what it does not know. A backend to which counting is dear, or
// that failed to count, may leave Held nil, which says nothing; it counts a worker at least
// once a minute. A claim that waits holds nothing for a caller that went away.
//
// §8 Running out. A worker's leases hold until its last Renew plus its Lease: before that
// time it is alive, at that time it is not ([WorkerInfo.Alive]). It may still renew, claim
// and settle until a Reclaim has found it. Reclaim ends the ID of each worker that ran out
// in the named queues, and hands its jobs out, possibly over several calls, under leases of
// the caller. That is a transition: the old lease is void from that instant, and not before.
// A reclaimed job is active under its new lease, not in the queue, until it is settled; it
// is reclaimed again if that worker runs out. Its head is unchanged but for the epoch: the
// outcome charges the crash. A Reclaim by a worker that ran out itself only answers
// ErrWorkerGone; over several queues this holds queue by queue, and jobs come beside the
// error. Renew answers when the next leases run out; callers need no Reclaim before.
//
// §9 Charges. [Outcome.Apply] says what an outcome charges: Deliveries counts leases that
// ended, Failures, Crashes and Snoozes what the outcomes charged. No backend invents a
// retry, a delay or a verdict. The outcome changes the item's Head or the stored one: while
// the lease holds they are the same, but for what was kept (§31).
//
// §10 Settle. An item applies if the job is active under that worker and epoch, and answers
// ErrLeaseLost otherwise; neither affects other items. It leads to Outcome.State, or to
// Outcome.IfCancelRequested if the job was asked to cancel. A request whose Number is the
// worker's last is answered with the verdicts of the first time, whatever its items. One
// with a lower number changes nothing and answers ErrLeaseLost throughout. Numbers are
// compared queue by queue, and forgotten with the worker. A settle by an ended worker
// applies to leases that nobody has reclaimed.
//
// §11 Final states. A completed or cancelled job keeps its record for Body.Retention, or else
// for Policy.RetainCompleted.Age as it is when the job ends; with neither, the record is gone
// in the same step. Dead jobs are kept until an operator, or Policy.RetainDead, removes them.
//
// §12 Retire. Retire releases every lease of the worker as Outcome Release does, or as
// Cancel does where that was asked for, and ends the ID, also one that was never registered:
// its registration may come late. It lists the jobs that went back to their queues, by their
// new epochs. It leaves out a queue that does not exist.
//
// # Claims
//
// §13 Bytes. A Claim or a Reclaim gives no further job once those of the answer have Bytes
// bytes; then it says More if something was left. So the first job always goes, however
// large, and an answer is shorter than Bytes and one job. What counts is what is stored of a
// job, payload and headers at least. A backend that asks its queues apart divides Bytes
// among them and gives the first job of each.
//
// §14 Several queues. Shares are served in order, each up to its Max, until
// ClaimRequest.Max, which the sum never exceeds. A backend that cannot serve all of them in
// one step may give less, and says More when asking again can help. A claim that gives
// nothing and says no More found nothing in any of them, and knows of each when its next job
// is due. A queue that fails withholds nothing that another gave: those jobs come beside the
// error. A step that failed itself gives nothing, whatever part of its answer had come: it
// may have been undone, and then nobody holds those jobs.
//
// §15 Time. Times are microseconds, and due times round up. Nothing is claimed before its
// RunAt, and what is due is claimable from that instant, without any sweep. What holds until
// a time holds before it and has lapsed at it. Leases, windows and retention are stored and
// compared with the request's Now, or else the store's clock: never with a caller's clock,
// and never by a store's own expiry. CreatedAt is of the same clock. A request with a Now
// never waits.
//
// §16 Order. Within a queue, lower Priority numbers go first. With Policy.PriorityRound n,
// each n jobs in a row that claims lease from the queue have at least one of each priority
// that had pending jobs all the while; the others are the most urgent. A backend counts them
// in the store, or in each handle. Within a priority, jobs of one key, and those without a
// key, go out in the order in which they became pending; a batch keeps its order. Keys take
// turns (§34). Released jobs, crashed ones without a delay, and those that were held while
// pending go to the front, where they have no order among themselves. Due, retried,
// rescheduled and redriven jobs go to the back. A job that is due counts as pending from the
// first claim, or other call, that sees it due; several that one call sees go by due time. A
// claim may make a bounded number of due jobs pending, the earliest first, and then says
// More.
//
// §17 Waking. A claim that waits returns soon after a job becomes claimable in one of its
// queues: by enqueue, settle, retire, resume, redrive, reschedule or unhold. For jobs that
// become due it may rely on its caller, who knows NextDue. When a job comes to be due sooner
// than a waiting claim knows, one such claim returns soon and says so. Jobs that become
// claimable in one call wake about as many claims, in whatever processes; a claim that stops
// waiting leaves the others to be woken. A paused queue wakes nobody until it is resumed,
// and makes no claim say More, or a NextDue that has passed. A wake-up is a hint: a claim
// may wait for nothing, for at most its Wait, and a claim made later finds everything. Only
// jobs that another call is at work on, perhaps one whose caller has gone, may be passed
// over until that call is over. A claim of several queues may pass over those of which only
// a claim was told that was cut off, for some seconds.
//
// # Enqueue
//
// §18 Enqueue. Each item is accepted or refused on its own, in order: it sees the effect of
// those before it in the request. The checks come in this order: validity, ErrDuplicate by
// ID, ErrQueueFull (of the queue by count, by bytes, of the key), ErrDuplicate by unique key.
// For a job that may replace another one (§50) the unique key comes before ErrQueueFull.
//
// §19 Uniqueness. Unique.Mode says how long a job holds its unique key, and TTL bounds that
// from the enqueue. Another job with the key is refused with ErrDuplicate and the holder's
// ID, or its Unique.Conflict says what becomes of it (§50 to §52). The step that ends the
// job, or starts it for UniqueUntilStarted, frees the key if that job holds it. Redrive
// takes a key of mode UniqueUntilDone again, for its TTL, or is refused with ErrDuplicate
// and the holder's ID. An enqueue that is refused leaves no key behind.
//
// §20 Depth. Policy.MaxDepth counts pending, scheduled and waiting jobs. Retries do not
// count and are never refused. Batches in flight may overshoot it.
//
// # Operating
//
// §21 Pages. A page examines at most Query.Limit records, and may return fewer, or none,
// beside a Cursor. A job that matches during the whole listing is shown at least once, unless
// the time that it is listed by changes meanwhile; one by key may miss jobs that become
// pending meanwhile. Pending, active and waiting jobs are listed in any order; scheduled and
// retry by due time; final ones by their end; earliest first, or latest first with Newest,
// which leaves out jobs that end meanwhile. A query selects the jobs that match all that it
// sets. A job leaves all listings with its record. A cursor that no page of the query gave is
// refused, or gives some page. Find, Queues and Prune leave out queues that do not exist.
//
// §22 Operations. Each Ref is decided on its own: done, ErrNotFound, or ErrWrongState (the
// table forbids it, or the Ref's epoch has passed). A refusal answers the job's state; its
// error is that of [Operation.Decide], or of [QueueInUse]. Cancel of an active job sets
// CancelRequested, wakes watchers of EventCancel, and shows in Renewed.Cancel until the
// lease ends; repeating it is harmless. A job that was deleted or cancelled while pending is
// never claimed.
//
// §23 Counts and pruning. Counts are exact, or true as of AsOf; they are never scans.
// Suppressed says how many dead jobs are suppressed: they are among those in Counts.
// OldestPending says, for each priority that has pending jobs, when the next in turn was
// created, so that a priority that starves shows. A store to which looking for the oldest
// jobs, or counting the leases of workers, has become dear may answer with what it saw up to
// a minute ago; not to a request with a Now. Prune removes completed and cancelled records
// that are past their time or over the count, which is of both together, earliest end first;
// dead ones by RetainDead; and whatever else has lapsed: remembered IDs, unique windows,
// ended workers, marks.
//
// # Marks, events, clients
//
// §24 Marks. At most one owner holds a name at a time, and a mark lapses at Until. A Take by
// the same owner renews it and keeps its value. Every Take that holds gets a higher fence
// than any before, also after the mark lapsed or was dropped. Keep, Set and Drop need the
// owner and the latest fence; otherwise they change nothing, and answer Held false with the
// holder. So an owner that another one followed can no longer change the mark. After a drop,
// and while nobody holds a mark, all but Held in the answer is zero.
//
// §25 Watch. Watch returns once events of later calls will be seen. EventSettled says where
// a settle or a Retire took a job, whether it keeps a record or not, and that an OpCancel
// ended one; no other step sends it. Each event is sent at most once; a watcher that is slow
// loses some and is told how many (EventMissed). Events of different jobs come in any order.
// A caller that waits for a job watches, looks, waits, and looks again at intervals.
//
// §26 Several clients. All of this holds for any number of brokers on one store at once, and
// for one broker used from any number of goroutines.
//
// # Moving and editing
//
// A backend with Limits.NoMove declines this part, as a whole: it has no waiting jobs, and
// no job comes from elsewhere.
//
// §27 Holding. OpHold takes a pending, scheduled or retry job out of all that claims look
// at, into state waiting, in one step. Such a job is not claimed and does not fall due. It
// keeps body, head and unique key, and shows Holder, HeldFrom and, where it had one, RunAt.
// Holding it again for the same Holder is done already, whatever the Ref's epoch; for
// another it answers ErrWrongState and names the holder. OpUnhold makes it again what it
// was: a pending job at the front of its queue, others at their time, which may have passed.
// An operation of any kind that is refused about a held job names its holder. OpUnhold and
// OpDelete with a Holder answer ErrWrongState, and name the holder, about a job that another
// holds.
//
// §28 Editing. OpEdit replaces the payload of a job that is pending, scheduled, in retry or
// dead, in one step. What else is stored of it stays, fields of a newer version too. A body
// that this program cannot read answers ErrNewerForm or ErrMalformed. A job that is not dead
// keeps its place and its epoch; a claim gets one payload or the other, whole. A dead one's
// epoch rises, so that a decision by an earlier copy is refused. A held job answers
// ErrWrongState and names its holder, who may have copied it.
//
// §29 Restoring. A NewJob with Restore is stored as what it was elsewhere: in its state,
// with its CreatedAt and its Head, whose epoch rises by one, so that no Ref from there fits.
// A job in retry keeps its time, which may have passed; a pending or scheduled one is
// pending or scheduled by its time. A unique key is held for its TTL from the restore. The
// checks are those of §18, except that ErrQueueFull refuses only pending and scheduled jobs,
// and a job that ended takes no unique key (nor one that freed it by starting). Completed
// and cancelled jobs are kept for their retention from the time of their end; when that is
// over, the receipt is the same and nothing is stored. An ID that is there answers
// ErrDuplicate, so that a repeat is harmless; but ErrWrongState, and the holder, while its
// job is held, which may be the original itself. An ID that OpDelete with a Holder left
// behind, and that is remembered (§1), is refused, except to a job restored from a later
// epoch than the deleted one had: so a job can come back, and a late repeat cannot.
//
// # What handlers keep
//
// §30 Keep. An item of a Settle whose outcome is Keep stores what a handler kept, in the
// job's head: a checkpoint and the results of steps, together at most MaxKept bytes, and its
// progress. It replaces all that was kept before. It is fenced, numbered and answered like
// any item (§10), with StateActive, and leaves all else as it is: the lease, the epoch, the
// charges, a unique key, marks, counts, and a request to cancel, which still shows in
// Renewed.Cancel. It sends no event and wakes nobody. Repeating it is harmless. Of several
// items of a request for one lease, those with Keep that come before the one that ends it
// apply, the last one last; those behind it answer ErrLeaseLost.
//
// §31 Kept. What was kept stays with the job through every transition but one: Complete
// drops checkpoint and steps, and leaves the progress. So a job that is retried, released,
// reclaimed, redriven or restored has it, and claims and reclaims give it with the job. An
// outcome replaces it by what Outcome.With was given. After a Keep under its lease a caller
// gives each outcome what it kept last; else the outcome leaves what the item's Head has, or
// what is stored. Retire leaves what is stored. Find shows it, with NoPayload too.
//
// # Limits, keys and order
//
// A backend with Limits.NoFlow declines this part, as a whole: it has none of these rules,
// no policies of keys, and serves jobs with a key like all others.
//
// §32 Limits of a queue. Policy.MaxActive bounds the active jobs of the queue, over all
// workers and as leases are counted: a claim leases no more than there is room for.
// Policy.Rate bounds the jobs that claims lease: in any span of Per at most Jobs + Burst,
// counted by [Bucket] with the queue's clock. A lease counts once, also when its answer was
// lost; what is released or crashes and is claimed again counts again. A Reclaim starts
// nothing. Policy.MaxBytes bounds the bytes (§13) of the jobs that are pending, scheduled,
// waiting or in retry: an Enqueue that finds as many or more is refused with ErrQueueFull,
// behind that of MaxDepth. Batches in flight may overshoot it.
//
// §33 Keys. A key has a policy of its own as soon as somebody sets one (PolicyRequest with
// Key): paused, max depth, max active, rate, weight. Each of these that is not zero takes the
// place of what the queue's policy says of each key (KeyMaxDepth, KeyMaxActive, KeyRate). It
// exists without jobs, until its last rule is removed or the queue is. [Operator.Keys] lists
// the keys that have jobs which have not ended, or a policy, by their bytes. A job without a
// key has no limit of a key, and is counted for none.
//
// §34 Turns. Within a priority, jobs with a key go out in turns: each key that has pending
// jobs of the priority and may start one gets one job before any has a second. A key of
// weight w has w turns where another has one. Jobs without a key are one more, of weight 1. A
// key that becomes able to start a job while others have their turns has its first turn after
// at most one of each other key, of its weight. A change of a policy may begin the turns
// anew, and until a claim says no More keys may be passed over. Within a key and a priority
// the order is that of §16. Turns are counted in the store or in each handle; a call that
// runs beside others may pass over keys at which another call is at work.
//
// §35 Limits of a key. KeyMaxActive and KeyRate, or those of the key's own policy, bound for
// each key what §32 bounds for the queue, and its pause keeps all its jobs back. A claim
// passes over the keys that may start nothing, at a cost that does not depend on how many
// they are or what waits in them. KeyMaxDepth bounds the jobs of the key that are pending,
// scheduled, waiting or in retry: an Enqueue that finds as many is refused with
// ErrQueueFull, and the Error's Field is "key".
//
// §36 Order. With Policy.Ordered the jobs of a key are claimed one after the other, in the
// order in which they became pending: a claimed job is the key's head until it ended, and of
// a key that has a head only that is claimed. So a head in retry, snoozed, released,
// rescheduled or held keeps its key back; when it is due or released it is the first of its
// key. A dead head keeps its key back with OrderStop, until it is redriven, which puts it
// first again, or its record is gone; with OrderSkip, also when that is set later, it is the
// head no more. Completed, cancelled and deleted ones are the head no more. An Enqueue into
// an ordered queue refuses, as ErrInvalid, a job without a key and one of another than the
// normal priority ([Policy.Admit]); those that were there before, or are restored, are
// claimed as in other queues, but behind their key's head. Without the rule there are no
// heads; jobs that were active when it was set are waited for (as with a KeyMaxActive of 1),
// and are no heads.
//
// §37 What a limit keeps back. A limited job stays what it is, pending: nothing of it is
// charged or changed, and it holds none of one limit's room while it waits for another's. It
// makes no claim say More, and wakes nobody. What makes room wakes a claim that waits (§17):
// an end of a lease, a change of a policy, a redrive or a deletion of a head. Where only
// time makes room, NextDue is not later than that time; it may be earlier. Such a job is,
// for waking (§17), one that comes to be due then. Limits hold exactly at every instant,
// whatever calls run at once, whose answer is lost and which worker died; a change of a
// policy counts for claims that begin after it, and takes back no lease.
//
// §38 Retries. Policy.RetryRate bounds how many jobs in retry become pending because they
// are due, as Rate does for claims. Those that are due and may not yet stay in retry, and
// NextDue says when the next may. Other jobs go ahead of them.
//
// # Meeting a held key
//
// A backend with Limits.NoMove declines this part, as a whole. A job with Restore
// is refused by a held key, whatever its Conflict.
//
// §50 Replacing. A job that meets a held key, and whose Conflict is not to refuse, gives the
// holder what its handler reads: payload and its reference, type version, headers,
// correlation ID, idempotency key. The holder must be pending, scheduled or in retry, and of
// the same type. This is one step, as OpEdit (§28): the holder keeps its place, its epoch,
// its key and all else. A claim gets all of the one or all of the other. The new job is not
// stored and needs no room in the queue. Its receipt has no error, and says Replaced, the
// holder's ID, state and time. Its own ID is refused for Policy.DuplicateSpan, as one with
// GivenID is: a repeat changes nothing, and answers Replaced and the holder's ID again,
// without a state; another job with it is refused. A holder that is in another state, of
// another type, or gone from its window, refuses the new job with ErrDuplicate; one whose
// body cannot be read with ErrNewerForm or ErrMalformed. The receipt names it.
//
// §51 Debouncing. With ConflictDebounce a pending or scheduled holder also gets the new
// job's time, by its Delay or RunAt, but none after its own CreatedAt and the new job's
// Unique.Latest. This is as OpReschedule: the epoch rises. A holder for which that time has
// come, and which is pending or due, keeps its place and its epoch. One in retry keeps its
// time.
//
// §52 Keeping the last. With ConflictKeepLast or ConflictDebounce, a job that meets an
// active holder is stored, and runs after it, if the Mode of both is UniqueUntilDone. Until
// then it is waiting: its Holder is Behind the ID of the one before, HeldFrom and RunAt say
// what it becomes. The step that ends the job before it, in whatever way, makes it pending
// at the back, or scheduled, raises its epoch, and gives it the key. One job at most waits
// behind another: a further one with any Conflict but to refuse replaces that one, in
// whatever state the job before it is then, and ConflictDebounce moves its RunAt, in the
// same epoch. From the step that stores it on no TTL counts, for the job before it or for
// itself. It counts for MaxDepth, and a full queue refuses it. OpCancel and OpDelete end it,
// and then nobody waits there. OpHold, OpUnhold, and OpDelete with a Holder answer
// ErrWrongState and name its Holder.
//
// # Totals
//
// §53 Totals. A queue counts what happens in it, from when it was made; [Totals] names what
// it counts. Each number is raised in the step that causes it, once: what is answered as the
// first time (§10), or refused, counts nothing. So no number falls while the queue is there.
// They are exact, or true as of AsOf, as the counts beside them (§23). A lease counts as
// claimed once, also when its answer was lost; a Reclaim claims nothing, and a crash counts
// in the outcome that charges it. Restoring counts nothing (§29), nor does a job that
// replaced another one (§50). OpCancel and Retire count the jobs that they cancel.
//
// §54 Waits and runs. An item of a Settle that ended a lease adds its Waited and its Ran, as
// its caller measured them. Each that is not zero is one wait, or one run. Keep adds none.
//
// # Several stores
//
// A backend with Limits.Shards spreads the jobs of each queue over so many stores. All jobs
// of a key are in one of them, whatever their queues, and so are all jobs without a key that
// have one unique key. What a section says holds there within each store, and over all of
// them but for this. §1, §19: an ID, and a unique key, is refused where a job with the same
// key holds it; a job without a key is found by its unique key, or else by its ID. §8: a
// worker that ran out may be ended in one store before others. §10: numbers are compared
// store by store. §13, §14, §16, §34: the order of jobs that are in different stores is not
// said, nor which of several shares they fill; a claim that gave jobs may say More of stores
// that it did not ask. §20, §32, §38: of a limit of the queue each store has a part, and
// refuses or keeps back what is over its own, so that the whole is never exceeded; a limit
// of less than one for each store is refused with ErrUnsupported. So are bounds of records
// by count (§23). §22: whether a queue is in use is asked of one store after the other. A
// call that one of the stores failed answers for the others, beside an error; Renew and
// Watch succeed.
package broker
