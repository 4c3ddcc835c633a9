package broker

import (
	"fmt"
	"slices"
	"strings"
)

// Decide says whether a store applies the operation to the job that ref names,
// which it found in a state, at an epoch and, when it waits, held by holder
// (§22, §27, §28, §41). It is done when nothing is left to do. The error is
// ErrWrongState and says what stands against it: somebody decided about the job
// since it was looked at, another holds it, or its state.
func (o *Operation) Decide(ref Ref, state State, epoch int64, holder string) (done bool, err error) {
	others := o.Holder != "" && holder != "" && holder != o.Holder
	if _, behind := IsBehind(holder); behind && o.Kind == OpUnhold {
		others = true // it would run beside the other one
	}
	switch {
	case o.Kind == OpHold && holder == o.Holder:
		return true, nil
	case ref.Epoch != AnyEpoch && ref.Epoch != epoch:
		return false, wrongState("it changed since it was looked at, its state is " + now(state, holder))
	case others || !o.Kind.Allowed(state):
		return false, WrongState(o.Kind, state, holder)
	}
	return false, nil
}

// WrongState is the error of an operation that the state of a job does not
// allow, or holder, who holds it; holder is empty for nobody.
func WrongState(kind OperationKind, state State, holder string) error {
	if kind.Allowed(state) && holder != "" {
		return wrongState("its state is " + now(state, holder) + "; nobody else decides about it")
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

// now says where a job is.
func now(state State, holder string) string {
	if holder == "" {
		return state.String()
	}
	return fmt.Sprintf("%v, held by %q", state, short(holder))
}

// behindPrefix begins what a job says that waits behind the holder of its unique key.
const behindPrefix = ReservedPrefix + "behind:"

// Behind is the Holder of a waiting job that runs after another one: the holder of
// its unique key, by its ID (§41).
func Behind(id string) string { return behindPrefix + id }

// IsBehind is the ID of the job after which one with this Holder runs.
func IsBehind(holder string) (id string, ok bool) { return strings.CutPrefix(holder, behindPrefix) }

// Held is the error of what concerns a job that holder holds.
func Held(holder string) error { return wrongState("its state is " + now(StateWaiting, holder)) }

// Allowed reports whether the table has the operation for jobs in a state; an
// operation that is not about jobs is in none.
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

// QueueInUse is the error of the removal of a queue that has jobs or live workers,
// as info says.
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

// QueueFull is the error of a job for which a queue with so many jobs has no room.
func QueueFull(depth, limit int64) error {
	return &Error{Err: ErrQueueFull, Hint: fmt.Sprintf("its depth is %d, its policy's limit is %d", depth, limit)}
}

// BytesFull is the error of a job for which a queue whose jobs have so many bytes
// has no room.
func BytesFull(bytes, limit int64) error {
	return &Error{Field: "bytes", Err: ErrQueueFull, Hint: fmt.Sprintf("the jobs in it have %d bytes, its policy's limit is %d", bytes, limit)}
}

// KeyFull is the error of a job for whose key, with so many jobs, there is no room.
func KeyFull(key string, depth, limit int64) error {
	return &Error{Field: "key", Err: ErrQueueFull, Hint: fmt.Sprintf("%d jobs of the key %q wait, its limit is %d", depth, short(key), limit)}
}

// Admit refuses a job that an ordered queue cannot put in order (§36). A restored
// one is taken as it is.
func (p *Policy) Admit(j *NewJob) error {
	switch {
	case p.Ordered == OrderNone || j.Restore != nil:
		return nil
	case j.Body.Key == "":
		return Invalid("key", "is empty; the queue is ordered, name the key whose jobs go one after the other")
	case j.Body.Priority != PriorityNormal:
		return Invalid("priority", "is %d; the queue is ordered, use %d (normal)", j.Body.Priority, PriorityNormal)
	}
	return nil
}

// Duplicate is the error of a job whose ID exists, when that is its holder, or
// whose unique key holder holds.
func Duplicate(id, holder string) error {
	if holder == "" || holder == id {
		return &Error{Err: ErrDuplicate, Hint: "the ID exists"}
	}
	return &Error{Err: ErrDuplicate, Hint: fmt.Sprintf("job %q holds its unique key", short(holder))}
}
