// Package broker is the contract between the framework and a store of jobs:
// the interface [Broker], its requests and answers, the stored form of a job,
// and the rules below. Application code does not need it; who writes a backend
// implements Broker and proves it with package conformance.
//
// The numbered sections are the contract. Rules of the conformance suite cite
// them. MUST is left out: every sentence is one.
//
// # States
//
// [Transitions] is the table of legal steps; nothing else moves a job. A job is
// in exactly one state and in exactly one place of the store, at every instant
// that another client can observe. Every write of a call checks all its
// preconditions before it changes anything, and changes everything or nothing
// per job.
//
// # Identity and record
//
// §1 Scope. A job is addressed by queue and ID. IDs and unique keys are scoped
// to the queue. An ID is refused with ErrDuplicate while any record of it
// exists; an ID with Body.GivenID also for Policy.DuplicateSpan after the
// record is gone, however it went. Enqueue registers a queue the first time it
// is named, and so do a Renew with Register and a Policy that sets a field: from then on Queues lists
// it, until OpRemoveQueue, which refuses a queue that has jobs (in any state)
// or live workers, and forgets all else of it: policy, remembered IDs, unique
// windows, ended workers.
//
// §2 Body and head. Body is written once (§28 tells who may change the payload)
// and returned unchanged: payload,
// header and result bytes, empty or not valid UTF-8 ones too (an empty payload
// may come back nil); durations and times to the microsecond, rounded up. Head
// is written only by transitions. Enqueueing again with the ID of a stored job
// answers ErrDuplicate with Holder = that ID and changes nothing.
//
// §3 Epochs. Every transition raises the job's epoch by one, but claim (the
// lease belongs to the epoch it found) and due (which moves the same entry from
// one structure to another). Asking an active job to cancel, suppressing,
// unsuppressing, and editing a job that is not dead are no transitions. Whatever names another epoch is void: a lease,
// identified by worker and epoch; an entry of a ready structure, which a claim
// discards (a bounded number a call, then it says More); a Ref, which answers
// ErrWrongState.
//
// §4 Bytes. Headers, results and errors are stored in this package's encoding
// ([AppendBody], [AppendHead]), never in a store's text or JSON type. A body of
// a newer version, or malformed, harms no other job: it is claimed and found
// like any job, with Job.Broken set, and can be settled.
//
// §5 Layout. A queue's record holds the version of its layout. Every call that
// concerns the queue checks it first and answers ErrNewerForm, changing
// nothing in it, when it is newer than the backend knows. Of a call over several
// queues, Enqueue, Claim, Settle and Operate serve the others, and each receipt,
// verdict and result has the error of its own queue. Other calls may serve the
// others, or refuse the whole.
//
// # Leases
//
// §6 Workers. A worker exists from its Renew with Register until it retires or
// a Reclaim finds that it ran out; then its ID is ended: Renew answers
// Lost (with or without Register), Claim and Reclaim answer ErrWorkerGone and
// lease nothing, also when they execute late. Prune forgets an ended ID
// EndedWorkerSpan after its end, and not while it has a lease; until then it
// stays ended. Beside Lost the rest of the answer means nothing, and the other
// queues may have been renewed or not. Claim checks this, queue by queue,
// in its own atomic step. Registering an ID that is alive renews it. What a
// worker says of itself is kept until it says so anew (Describe); a Renew with
// neither leaves it.
//
// §7 Held. Renew answers how many leases the store counts for the worker in
// each queue, so that a worker can tell that the reply of a claim was lost; it
// then lists what it holds (Query.Worker) and releases what it does not know. A
// store to which counting is dear, or that failed to, may leave Held nil, which
// says nothing; it counts a worker at least once a minute.
// A claim that waits holds nothing for a caller that went away.
//
// §8 Running out. A worker's leases hold until its last Renew plus its Lease.
// Before that time it is alive, at that time it is not ([WorkerInfo.Alive]).
// It may still renew, claim and settle until a Reclaim has found it.
// Reclaim ends the ID of each worker that ran out in the named queues, then
// hands out its jobs (possibly over several calls) under leases of the caller:
// a transition, so the old lease is void from that instant, and the job not
// before. A reclaimed job is not in the queue: it is active under its new lease
// until it is settled, and reclaimed again if that worker runs out. A Reclaim
// by a worker that itself ran out does nothing but answer ErrWorkerGone; over
// several queues this holds queue by queue, and jobs come beside the error. The
// head is unchanged but for the epoch: the crash is charged by the outcome.
// Renew answers the end of the leases that run out first, by which callers know
// when a Reclaim may find something.
//
// §9 Charges. Deliveries counts leases that ended; Failures, Crashes and Snoozes
// what the outcomes charged: exactly what [Outcome.Apply] says. No backend
// invents a retry, a delay or a verdict. The outcome changes the item's Head or
// the stored one: they are the same while the lease holds.
//
// §10 Settle. An item applies if the job is active under that worker and epoch,
// and answers ErrLeaseLost otherwise; neither affects other items. The state it
// leads to is Outcome.State; but a job that was asked to cancel gets
// Outcome.IfCancelRequested. A request whose Number is the worker's last is
// answered with the verdicts of the first time, without looking at its items;
// one with a lower number changes nothing and answers ErrLeaseLost throughout.
// The memory of numbers ends with the worker. Numbers are compared queue by
// queue. A settle by an ended worker applies to leases not yet reclaimed.
//
// §11 Final states. Completed and cancelled jobs keep a record for Body.Retention
// or else Policy.RetainCompleted.Age as it is when they end; for neither, the
// record is gone in the same step. Dead jobs are kept (§23 prunes them by Policy.RetainDead only).
//
// §12 Retire. Retire releases every lease of the worker as Outcome Release does
// (as Cancel does where that was asked for), and ends the ID, also one that was
// never registered: its registration may come late. It lists the jobs that went
// back to their queues, by their new epochs. It leaves out a queue that does not
// exist.
//
// §13 Bytes. A Claim or a Reclaim gives no further job once those of the answer
// have Bytes bytes, and says More if something was left: so the first job always
// goes, however large, and an answer is less than Bytes and one job long. What
// counts is what is stored of a job, payload and headers at least. A backend that
// asks queues apart divides Bytes among them and gives the first job of each.
//
// # Time, order, waiting
//
// §15 Time. Times are microseconds. Due times round up: nothing is claimed
// before its RunAt, and everything due is claimable from that instant, without
// any sweep. Deadlines (leases, windows, retention) are stored and compared with
// the request's Now, or the store's clock; never a store's own expiry. What
// holds until a time holds before it, and has lapsed at it.
// CreatedAt is the store's (or the request's Now). A request with Now never
// waits. Clocks of callers are never used.
//
// §16 Order. Within a queue, lower Priority numbers go first. With
// Policy.PriorityRound, of so many jobs in a row that claims lease from a queue at
// least one is of each priority that had pending jobs all the while; the others,
// most urgent first. A backend counts them in the store, or in each handle. Within a priority,
// jobs go out in the order in which they became pending; a batch keeps its
// order. Released jobs, crashed ones without a delay, and those that were held
// while pending go to the front; due,
// retried, rescheduled and redriven ones to the back. Jobs in front have no
// order among themselves. A job that is due counts
// as pending from the first claim (or other call) that sees it due; several
// that become due in one call go by due time. A claim may make a bounded number
// of due jobs pending, the earliest due first, and then says More.
//
// §18 Waking. A claim that waits returns soon after a job becomes claimable in
// one of its queues, by enqueue, settle, retire, resume, redrive, reschedule or
// unhold.
// For jobs that become due it may rely on its caller, who knows NextDue; when a
// job comes to be due sooner than what a claim that waits knows of, one such claim
// returns soon and says so. Jobs that become claimable in one call wake about as
// many claims as there are jobs, in whatever processes; a claim that stops waiting
// leaves the others to be woken. A wake-up is a hint: a claim may wait in vain for at most its Wait, and a claim
// made later finds everything. Paused queues wake nobody until they resume. They
// make no claim say More, or a NextDue that has passed.
//
// §19 Several queues. Shares are served in order, each up to its Max, until
// ClaimRequest.Max. A backend that cannot serve all in one step may give less,
// and then says More when asking again can help. The sum never exceeds Max. A
// failing queue withholds nothing that another gave: jobs come beside the error.
// A step that failed itself gives nothing, whatever of its answer had come: it
// may have been undone, and then nobody holds those jobs.
//
// # Calls
//
// §20 Enqueue. Each item is refused or accepted on its own, in order: an item
// sees the effect of those before it in the same request. Check order:
// validity, ErrDuplicate by ID, ErrQueueFull, ErrDuplicate by unique key.
//
// §21 Uniqueness. Unique.Mode says how long the key is held; TTL bounds it from
// the enqueue, by comparison with now. The step that ends the job (or starts
// it, for UniqueUntilStarted) frees the key, and only if that job holds it.
// Redrive takes a key of mode UniqueUntilDone again, for its TTL, or is
// refused with ErrDuplicate and the holder's ID. A refused enqueue leaves no
// key behind.
//
// §22 Depth. Policy.MaxDepth counts pending, scheduled and waiting jobs; retries
// do not count and are never refused. Batches in flight may overshoot it.
//
// §23 Looking and operating. A page examines at most Query.Limit records and may
// return fewer, or none, beside a Cursor. A job that matches during the whole
// listing is shown at least once, unless the time that it is listed by changes meanwhile. States are listed: pending, active and waiting
// in any order, scheduled and retry by due time, final ones by end, earliest first.
// Operations decide each Ref on its own: ErrNotFound, ErrWrongState (the table
// forbids it, or the Ref's epoch passed) or done. A refusal answers the job's state,
// and its error is that of Operation.Decide, or of QueueInUse. Cancel of an active job sets
// CancelRequested, wakes watchers of EventCancel, and shows in Renewed.Cancel
// until the lease ends; repeating it is harmless. A job deleted or cancelled
// while pending is never claimed. Counts are exact, or true as of AsOf; they
// are never scans. Suppressed says how many of the dead jobs are suppressed: they are
// among those that Counts has. OldestPending says of each priority that has pending jobs when the
// one next in turn was created, so that a priority which waits for others shows. Prune removes completed and cancelled records past their
// time and over the count, which is of both together (earliest end first), dead
// ones by RetainDead, and
// whatever else has lapsed: remembered IDs, unique windows, ended workers, marks.
// A query selects the jobs that match all that it sets. A cursor that no page of
// the query gave is refused or gives some page. A job leaves all listings with its
// record. Find, Queues and Prune leave out queues that do not exist.
//
// §24 Mark. At most one owner holds a name at a time; a mark lapses at Until.
// Take by the same owner renews it and keeps its value. Every Take that holds,
// that of the same owner too, gets a higher fence than any before, even after
// the mark lapsed or was dropped. Keep, Set and Drop need owner and the latest
// fence; otherwise they change nothing and answer Held false with the holder.
// So who took a mark before somebody else took it in the same name can no
// longer change it. After a drop, and while nobody holds a mark, all but Held in
// the answer is zero.
//
// §25 Watch. Watch returns once events of later calls will be seen. EventSettled
// says where a settle or a Retire took a job, whether a record is kept or not, and
// that an OpCancel ended one; no other step sends it. Events are
// sent at most once; a watcher that is slow loses some and is told how many
// (EventMissed). Who waits for a job watches, looks, waits, and looks again at
// intervals.
//
// §26 Several clients. All of this holds for any number of brokers on one store
// at once, and for one broker used from any number of goroutines.
//
// # Moving and editing
//
// §27 Holding. OpHold takes a pending, scheduled or retry job out of all that
// claims look at, into state waiting, in one step. Such a job is not claimed and
// does not fall due; it keeps its body, its head and its unique key, and shows
// Holder, HeldFrom and, where it had one, RunAt. Holding it again for the same
// Holder is done already, whatever the Ref's epoch; for another it answers
// ErrWrongState and names the holder. OpUnhold makes it again what it was: a
// pending job at the front of its queue, the others at their time, which may
// have passed. An operation of any kind that is refused about a held job names
// its holder. With a Holder, OpUnhold and OpDelete answer ErrWrongState, and
// name the holder, about a job that another holds.
//
// §28 Editing. OpEdit replaces the payload of a job that is pending, scheduled,
// in retry or dead, in one step; what else is stored of it stays, fields of a
// newer version too. A body of a form that this program cannot read answers
// ErrNewerForm or ErrMalformed. A job that is not dead keeps its place and its
// epoch; a claim gets one payload or the other, whole. A dead one's epoch rises,
// so that who decides by an earlier copy is refused. A held job is its holder's,
// who may have copied it: ErrWrongState, and who holds it.
//
// §29 Restoring. A NewJob with Restore is stored as what it was elsewhere: in
// its state, with its CreatedAt and its Head, whose epoch rises by one, so that
// no Ref from there fits. A job in retry keeps its time, which may have passed; a
// pending or scheduled one is pending or scheduled by its time. A unique key is
// held for its TTL from the restore. Checks
// are those of §20, but depth refuses only pending and scheduled ones, and a job
// that ended takes no unique key (nor one that freed it by starting). Completed
// and cancelled ones are kept for their retention from the time of their end;
// when that is over, the receipt is the same and nothing is stored. An ID that
// is there answers ErrDuplicate, so that a repeat is harmless; but ErrWrongState,
// and the holder, while the job that has it is held: that may be the original
// itself. An ID that OpDelete with a Holder left behind, and that is remembered
// (§1), is refused as ever, except to a job restored from a later epoch than the
// deleted one had: so a job can come back, and a late repeat cannot.
package broker
