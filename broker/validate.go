package broker

import (
	"cmp"
	"time"
)

// The Check methods are a backend's first step: they refuse a request before the store
// sees it. Each error names the field, the limit and the remedy.

// Check refuses a claim outside the limits.
func (r *ClaimRequest) Check() error {
	err := CheckName("worker", r.Worker)
	switch settles := len(r.Settle.Items) > 0; {
	case err != nil:
	case r.Max < 0 || r.Max > MaxClaim:
		err = Invalid("max", "is %d; use 0 to %d", r.Max, MaxClaim)
	case r.Bytes < 0:
		err = Invalid("bytes", "is %d; use 0 for the default, or more", r.Bytes)
	case r.Wait < 0 || r.Wait > MaxWait:
		err = Invalid("wait", "is %v; use 0 to %v", r.Wait, MaxWait)
	case settles && r.Wait > 0:
		err = Invalid("wait", "is set together with outcomes to settle; send those first")
	case settles && r.Settle.Worker != r.Worker:
		err = Invalid("settle worker", "differs from the claim's; settle another worker's jobs by a call of its own")
	case settles:
		err = r.Settle.Check()
	}
	for i := 0; err == nil && i < len(r.Queues); i++ {
		s := &r.Queues[i]
		if err = CheckQueue(s.Queue); err == nil && (s.Max < 0 || s.Max > MaxClaim) {
			return About(Invalid("share", "is %d; use 0 to %d", s.Max, MaxClaim), "claim", s.Queue, "")
		}
	}
	return About(err, "claim", "", "")
}

// Check refuses a renewal outside the limits.
func (r *RenewRequest) Check() error {
	err := cmp.Or(CheckName("worker", r.Worker), checkQueues(r.Queues), CheckDuration("lease", r.Lease))
	if err == nil && r.Lease < time.Millisecond {
		err = Invalid("lease", "is %v; use at least 1ms", r.Lease)
	}
	return About(err, "renew", "", "")
}

// Check refuses a retirement outside the limits.
func (r *RetireRequest) Check() error {
	return About(cmp.Or(CheckName("worker", r.Worker), checkQueues(r.Queues)), "retire", "", "")
}

// Check refuses a settle outside the limits.
func (r *SettleRequest) Check() error {
	err := CheckName("worker", r.Worker)
	switch {
	case err != nil:
	case r.Number < 1:
		err = Invalid("number", "is %d; number a worker's settles from 1", r.Number)
	case len(r.Items) > MaxBatch:
		err = Invalid("items", "has %d, the limit is %d; split the batch", len(r.Items), MaxBatch)
	}
	for i := 0; err == nil && i < len(r.Items); i++ {
		err = r.Items[i].check(i)
	}
	return About(err, "settle", "", "")
}

// check refuses the i-th item of a settle if it is outside the limits.
func (s *Settlement) check(i int) (err error) {
	o := &s.Outcome
	switch {
	case s.Job == nil:
		return Invalid("items", "item %d has no job", i)
	case o.kind == OutcomeNone:
		err = Invalid("items", "item %d has no outcome; use a constructor", i)
	case o.delay > MaxDelay:
		err = Invalid("delay", "is %v, the limit is %v (100 years)", o.delay, MaxDelay)
	case len(o.result) > MaxResult:
		err = tooLarge("result", len(o.result), MaxResult, "store it elsewhere")
	default:
		err = cmp.Or(o.kept.Check(), o.putOff.check(), CheckDuration("waited", s.Waited), CheckDuration("ran", s.Ran))
	}
	return About(err, "", s.Job.Queue, s.Job.ID)
}

// Check refuses a reclaim outside the limits.
func (r *ReclaimRequest) Check() error {
	err := cmp.Or(CheckName("worker", r.Worker), checkQueues(r.Queues))
	if err == nil && (r.Max < 1 || r.Max > MaxClaim) {
		err = Invalid("max", "is %d; use 1 to %d", r.Max, MaxClaim)
	}
	if err == nil && r.Bytes < 0 {
		err = Invalid("bytes", "is %d; use 0 for the default, or more", r.Bytes)
	}
	return About(err, "reclaim", "", "")
}

// Check refuses a prune outside the limits.
func (r *PruneRequest) Check() error {
	err := checkQueues(r.Queues)
	if err == nil && (r.Max < 1 || r.Max > MaxBatch) {
		err = Invalid("max", "is %d; use 1 to %d", r.Max, MaxBatch)
	}
	return About(err, "prune", "", "")
}

// Check refuses a query outside the limits and sets the default Limit.
func (q *Query) Check() error {
	err := cmp.Or(CheckQueue(q.Queue), checkOptional("key", q.Key), checkOptional("worker", q.Worker), checkOptional("type", q.Type))
	switch {
	case err != nil:
	case q.Limit < 0 || q.Limit > 5000:
		err = Invalid("limit", "is %d; use 1 to 5000", q.Limit)
	case len(q.IDs) > 1000:
		err = Invalid("ids", "has %d, the limit is 1000; ask in parts", len(q.IDs))
	case len(q.IDs) == 0 && q.State == StateNone && q.Worker == "" && q.Key == "":
		err = Invalid("state", "is not set; select by ids, state, worker or key")
	case q.Newest && (len(q.IDs) > 0 || q.Worker != "" || q.Key != "" || !q.State.Final()):
		err = Invalid("newest", "is set; it needs a query by state completed, cancelled or dead")
	default:
		err = checkNames("id", q.IDs) // some stores cannot look other IDs up
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	return About(err, "find", q.Queue, "")
}

// Check refuses an operation outside the limits.
func (o *Operation) Check(l Limits) error {
	err := cmp.Or(CheckDuration("delay", o.Delay), CheckTime("run at", o.RunAt), checkOptional("holder", o.Holder))
	switch limit := l.PayloadLimit(); {
	case err != nil:
	case o.Kind < OpCancel || o.Kind > OpUnhold:
		err = Invalid("kind", "%d is unknown", o.Kind)
	case l.NoMove && (o.Holder != "" || o.Kind == OpHold || o.Kind == OpUnhold || o.Kind == OpEdit):
		err = ErrUnsupported
	case o.Kind == OpHold && Reserved(o.Holder):
		err = Invalid("holder", "begins with %s, which is reserved for the framework; choose another name", ReservedPrefix)
	case o.Kind == OpHold && o.Holder == "":
		err = Invalid("holder", "is empty; say who holds the jobs, and for what")
	case o.Holder != "" && o.Kind != OpHold && o.Kind != OpUnhold && o.Kind != OpDelete:
		err = Invalid("holder", "is set; only hold, unhold and delete have one")
	case len(o.Payload) > 0 && o.Kind != OpEdit:
		err = Invalid("payload", "is set; only edit has one")
	case len(o.Payload) > limit:
		err = tooLarge("payload", len(o.Payload), limit, "store it elsewhere and pass a reference")
	case o.Kind == OpEdit && len(o.Refs) > 1:
		err = Invalid("refs", "has %d; edit one job at a time", len(o.Refs))
	case len(o.Refs) > 1000:
		err = Invalid("refs", "has %d, the limit is 1000; operate in parts", len(o.Refs))
	case o.Delay > 0 && !o.RunAt.IsZero():
		err = Invalid("delay", "is set together with run at; set one of them")
	}
	for i := 0; err == nil && i < len(o.Refs); i++ {
		if err = CheckQueue(o.Refs[i].Queue); err == nil && o.Kind != OpRemoveQueue {
			err = CheckName("id", o.Refs[i].ID)
		}
	}
	return About(err, o.Kind.String(), "", "")
}

// Check refuses a mark outside the limits.
func (r *MarkRequest) Check() error {
	err := CheckName("name", r.Name)
	switch {
	case err != nil:
	case r.Action > MarkDrop:
		err = Invalid("action", "%d is unknown", r.Action)
	case r.Action != MarkRead && r.Owner == "":
		err = Invalid("owner", "is empty; name who holds the mark")
	case r.Action != MarkRead && r.Action != MarkDrop && r.TTL <= 0:
		err = Invalid("ttl", "is %v; use more than zero", r.TTL)
	case len(r.Value) > MaxResult:
		err = tooLarge("value", len(r.Value), MaxResult, "store it elsewhere")
	default:
		err = cmp.Or(CheckDuration("ttl", r.TTL), checkOptional("owner", r.Owner))
	}
	return About(err, "mark", "", "")
}

// Check refuses a watch outside the limits.
func (r *WatchRequest) Check() error {
	return About(checkQueues(r.Queues), "watch", "", "")
}

// checkNames refuses what CheckName refuses for one of the names.
func checkNames(field string, names []string) error {
	for _, name := range names {
		if err := CheckName(field, name); err != nil {
			return err
		}
	}
	return nil
}

func checkQueues(names []string) error {
	if len(names) == 0 {
		return Invalid("queues", "is empty; name at least one")
	}
	for _, q := range names {
		if err := CheckQueue(q); err != nil {
			return err
		}
	}
	return nil
}
