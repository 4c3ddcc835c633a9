package broker

import (
	"fmt"
	"slices"
	"strings"
)

// Decide decides whether a store applies the operation to the job that ref names, given
// the state and the epoch that it found and, for a waiting job, the holder (§22, §27,
// §28, §41). It returns done if nothing is left to do. The error is ErrWrongState and
// says why: the job changed since it was read, another holder has it, or its state does
// not allow the operation.
func (o *Operation) Decide(ref Ref, state State, epoch int64, holder string) (done bool, err error) {
	others := o.Holder != "" && holder != "" && holder != o.Holder
	if _, behind := IsBehind(holder); behind && o.Kind == OpUnhold {
		others = true // the job would run at the same time as the job that it is behind
	}
	switch {
	case o.Kind == OpHold && holder == o.Holder:
		return true, nil
	case ref.Epoch != AnyEpoch && ref.Epoch != epoch:
		return false, wrongState("it changed since it was read, its state is " + now(state, holder))
	case others || !o.Kind.Allowed(state):
		return false, WrongState(o.Kind, state, holder)
	}
	return false, nil
}

// WrongState returns the error of an operation that a job's state, or its holder, does
// not allow. Holder is empty if nobody holds the job.
func WrongState(kind OperationKind, state State, holder string) error {
	if kind.Allowed(state) && holder != "" {
		return wrongState("its state is " + now(state, holder) + "; only its holder decides about it")
	}
	var allowed []string
	for _, s := range States() {
		if kind.Allowed(s) {
			allowed = append(allowed, s.String())
		}
	}
	states := allowed[0]
	if last := len(allowed) - 1; last > 0 {
		states = strings.Join(allowed[:last], ", ") + " and " + allowed[last]
	}
	return wrongState(fmt.Sprintf("its state is %s; %v is for %s jobs", now(state, holder), kind, states))
}

func wrongState(hint string) error { return &Error{Err: ErrWrongState, Hint: hint} }

// now describes a job's state and holder.
func now(state State, holder string) string {
	if holder == "" {
		return state.String()
	}
	return fmt.Sprintf("%v, held by %q", state, short(holder))
}

// behindPrefix begins the Holder of a job that waits behind the holder of its unique key.
const behindPrefix = ReservedPrefix + "behind:"

// Behind returns the Holder of a waiting job that runs after the job with this ID (§41).
func Behind(id string) string { return behindPrefix + id }

// IsBehind returns the ID of the job after which a job with this Holder runs.
func IsBehind(holder string) (id string, ok bool) { return strings.CutPrefix(holder, behindPrefix) }

// Held returns the error of a call that is refused because the job is held.
func Held(holder string) error { return wrongState("its state is " + now(StateWaiting, holder)) }

// Allowed reports whether the operation is for jobs in a state. OpRemoveQueue is for
// none.
func (k OperationKind) Allowed(s State) bool {
	switch k {
	case OpCancel:
		return s == StateActive || Allows(s, OnCancel)
	case OpEdit:
		return s.Editable()
	case OpSuppress, OpUnsuppress:
		return s == StateDead
	}
	event, ok := operationEvents[k]
	return ok && Allows(s, event)
}

var operationEvents = map[OperationKind]TransitionEvent{
	OpDelete: OnDelete, OpRedrive: OnRedrive, OpReschedule: OnReschedule, OpHold: OnHold, OpUnhold: OnUnhold,
}

// QueueInUse returns the error of removing a queue that has jobs or live workers.
func QueueInUse(info QueueInfo) error {
	var has []string
	for _, s := range States() {
		if n := info.Counts[s]; n > 0 {
			has = append(has, fmt.Sprintf("%d %v", n, s))
		}
	}
	hint := "it was in use a moment ago"
	if len(has) > 0 {
		hint = "it has jobs: " + strings.Join(has, ", ")
	}
	if n := len(info.Workers); n > 0 {
		ids := make([]string, 0, n)
		for _, w := range info.Workers {
			ids = append(ids, short(w.ID))
		}
		slices.Sort(ids)
		workers := fmt.Sprintf("live workers (%d): %s", n, strings.Join(ids[:min(n, 3)], ", "))
		if n > 3 {
			workers += " and others"
		}
		if hint += "; it has " + workers; len(has) == 0 {
			hint = "it has " + workers
		}
	}
	return wrongState(hint)
}

// QueueFull returns the error of a job that Policy.MaxDepth refuses.
func QueueFull(depth, limit int64) error {
	return &Error{Err: ErrQueueFull, Hint: fmt.Sprintf("its depth is %d, its policy's limit is %d", depth, limit)}
}

// BytesFull returns the error of a job that Policy.MaxBytes refuses.
func BytesFull(bytes, limit int64) error {
	return &Error{Field: "bytes", Err: ErrQueueFull, Hint: fmt.Sprintf("the jobs in it have %d bytes, its policy's limit is %d", bytes, limit)}
}

// KeyFull returns the error of a job that the depth limit of its key refuses.
func KeyFull(key string, depth, limit int64) error {
	return &Error{Field: "key", Err: ErrQueueFull, Hint: fmt.Sprintf("%d jobs of the key %q wait, its limit is %d", depth, short(key), limit)}
}

// Admit refuses a job that an ordered queue cannot put in order (§36). It accepts every
// restored job.
func (p *Policy) Admit(j *NewJob) error {
	switch {
	case p.Ordered == OrderNone || j.Restore != nil:
		return nil
	case j.Body.Key == "":
		return Invalid("key", "is empty; the queue is ordered, name the key whose jobs run one after the other")
	case j.Body.Priority != PriorityNormal:
		return Invalid("priority", "is %d; the queue is ordered, use %d (normal)", j.Body.Priority, PriorityNormal)
	}
	return nil
}

// Duplicate returns the error of a job whose ID exists, if holder is that ID or empty,
// or whose unique key holder holds.
func Duplicate(id, holder string) error {
	if holder == "" || holder == id {
		return &Error{Err: ErrDuplicate, Hint: "the ID exists"}
	}
	return &Error{Err: ErrDuplicate, Hint: fmt.Sprintf("job %q holds its unique key", short(holder))}
}
