package redisbroker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// operateRounds is how often an operation reads a job again that changed before the
// decision was applied.
const operateRounds = 5

// What operate.lua answers about a job instead of its new state.
const (
	operateChanged    = -1 // the job has changed since it was read
	operateKeyHeld    = -2 // another job holds its unique key
	operateUnreadable = -3 // its body or head cannot be read
)

// Operate decides each Ref on its own. It reads the jobs, and applies its decisions in a second round
// trip. If a job has changed in between, it is not changed but read again. §22.
func (b *Broker) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	if err := op.Check(b.Limits()); err != nil {
		return nil, err
	}
	name := op.Kind.String()
	if err := b.usable(ctx); err != nil {
		return nil, broker.About(err, name, "", "")
	}
	results := make([]broker.OperationResult, len(op.Refs))
	queues := make(map[string][]int)
	var order []string
	for i, ref := range op.Refs {
		results[i].Ref = ref
		if op.Kind == broker.OpRemoveQueue {
			results[i].Err = b.removeQueue(ctx, ref, op.Now)
		} else if ref.ID == "" {
			results[i].Err = broker.Invalid("id", "is empty; name the job")
		} else {
			if queues[ref.Queue] == nil {
				order = append(order, ref.Queue)
			}
			queues[ref.Queue] = append(queues[ref.Queue], i)
		}
	}
	for _, queue := range order {
		if b.operate(ctx, &op, queue, queues[queue], results) == len(results) {
			return nil, broker.About(results[0].Err, name, "", "")
		}
	}
	for i := range results {
		results[i].Err = broker.About(results[i].Err, name, op.Refs[i].Queue, op.Refs[i].ID)
	}
	return results, nil
}

// operate decides the refs with these indexes, all of one queue. It returns how many of them an
// error of the store left undecided; their results have that error.
func (b *Broker) operate(ctx context.Context, op *broker.Operation, queue string, places []int, results []broker.OperationResult) int {
	for round := 0; len(places) > 0; round++ {
		ids := make([]string, len(places))
		for i, at := range places {
			ids[i] = op.Refs[at].ID
		}
		jobs, err := b.look(ctx, op, queue, ids)
		if err != nil {
			return undecided(results, places, err)
		}
		s := &step{script: operateScript, queues: []string{queue}, now: nowArg(op.Now), args: []any{b.channel(queue)}}
		var sent, again []int
		before := make(map[string]bool) // holders of jobs that the call decides before
		for _, at := range places {
			r, j := &results[at], jobs[op.Refs[at].ID]
			d, err := decide(op, j, op.Refs[at])
			if r.Err, r.Holder = err, ""; j != nil {
				r.State = j.State
			} else {
				r.State = broker.StateNone
			}
			if errors.Is(err, broker.ErrWrongState) {
				r.Holder = j.Holder
			}
			if d.what != "" && err == nil {
				s.args = append(s.args, j.ID, int(j.State), j.Epoch, j.index, d.what, d.rest, d.argument)
				sent = append(sent, at)
				before[broker.Behind(j.ID)] = true
			} else if before[r.Holder] {
				again = append(again, at) // what is sent may start it
			}
		}
		if len(sent) == 0 {
			return 0
		}
		if err := b.runOne(ctx, s); err != nil {
			return undecided(results, sent, err)
		}
		places = again
		for n, at := range sent {
			if s.code != codeDone || len(s.reply) < 2*n+2 {
				results[at].State, results[at].Err = broker.StateNone, broker.ErrNotFound // the queue is gone
				continue
			}
			switch state := number(s.reply[2*n]); {
			case state == operateKeyHeld:
				holder := text(s.reply[2*n+1])
				results[at].Holder, results[at].Err = holder, broker.Duplicate(op.Refs[at].ID, holder)
			case state == operateUnreadable:
				results[at].Err = broker.ErrMalformed
			case state != operateChanged:
				results[at].State = broker.State(state)
			case round+1 == operateRounds:
				results[at].Err = fmt.Errorf("%w: it keeps changing", broker.ErrWrongState)
			default: // operateChanged
				places = append(places, at)
			}
		}
	}
	return 0
}

func undecided(results []broker.OperationResult, places []int, err error) int {
	for _, at := range places {
		results[at].Err = err
	}
	return len(places)
}

// looked is a job as an operation found it.
type looked struct {
	broker.Job
	index string // the index of its body: the script frees what the index names
}

// look reads jobs without their payloads.
func (b *Broker) look(ctx context.Context, op *broker.Operation, queue string, ids []string) (map[string]*looked, error) {
	q := &broker.Query{Now: op.Now, Queue: queue, IDs: ids, NoPayload: true}
	jobs := make(map[string]*looked, len(ids))
	err := b.byID(ctx, q, func(s *step) {
		for i, j := range found(nil, q, s) {
			jobs[j.ID] = &looked{Job: j, index: indexOf(text(s.reply[1+7*i+5]))}
		}
	})
	return jobs, err
}

// indexOf returns the index of a stored body: see index_of in scripts/lib/index.lua.
func indexOf(body string) string {
	if len(body) < createdSize+2 {
		return ""
	}
	rest := []byte(body[createdSize+1:])
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > uint64(len(rest)-n) {
		return ""
	}
	return string(rest[n : n+int(size)])
}

// decision is what operate.lua must do with a job; nothing if what is empty.
type decision struct {
	what     string
	rest     string // counts and tail of the new head
	argument string
}

// decide applies the table of transitions.
func decide(op *broker.Operation, j *looked, ref broker.Ref) (decision, error) {
	if j == nil {
		return decision{}, broker.ErrNotFound
	}
	if done, err := op.Decide(ref, j.State, j.Epoch, j.Holder); done || err != nil {
		return decision{}, err
	}
	switch op.Kind {
	case broker.OpCancel:
		if j.State == broker.StateActive {
			return decision{what: "ask"}, nil
		}
		return decision{what: "cancel", rest: restOf(j.Moved()), argument: strconv.FormatInt(broker.DurationMicros(j.Retention), 10)}, nil
	case broker.OpDelete:
		if op.Holder != "" {
			return decision{what: "leave"}, nil
		}
		return decision{what: "delete"}, nil
	case broker.OpEdit:
		return decision{what: "edit", argument: string(op.Payload)}, j.Broken
	case broker.OpHold:
		return decision{what: "hold", rest: restOf(j.Moved()), argument: op.Holder}, nil
	case broker.OpUnhold:
		return decision{what: "unhold", rest: restOf(j.Moved())}, nil
	case broker.OpRedrive:
		return decision{what: "redrive", rest: restOf(j.Redriven())}, nil
	case broker.OpReschedule:
		return decision{what: "reschedule", rest: restOf(j.Moved()), argument: when(op.Delay, op.RunAt)}, nil
	}
	h, out := j.Head, "0"
	if h.Suppressed = op.Kind == broker.OpSuppress; h.Suppressed { // or OpUnsuppress
		out = "1"
	}
	return decision{what: "note", rest: restOf(h), argument: out}, nil
}

// restOf returns the part of a stored head after the time of the job's end.
func restOf(h broker.Head) string {
	p := numbers(nil, int64(h.Deliveries), int64(h.Failures), int64(h.Crashes), int64(h.Snoozes))
	return string(appendTail(p, &h))
}

// when writes a time to run at: "n" for now.
func when(delay time.Duration, runAt time.Time) string {
	switch {
	case delay > 0:
		return "d" + strconv.FormatInt(broker.DurationMicros(delay), 10)
	case !runAt.IsZero():
		return "a" + strconv.FormatInt(broker.Micros(runAt), 10)
	}
	return "n"
}

// inUse returns the reason why a queue cannot be removed.
func (b *Broker) inUse(ctx context.Context, queue string, now time.Time) error {
	reply, err := b.Queues(ctx, broker.QueuesRequest{Now: now, Names: []string{queue}, Workers: true})
	info := broker.QueueInfo{}
	if err == nil && len(reply.Queues) == 1 {
		info = reply.Queues[0]
	}
	return broker.QueueInUse(info)
}

// removeQueue removes a queue, and then its name from the list of queues, unless another client has
// created the queue in between.
func (b *Broker) removeQueue(ctx context.Context, ref broker.Ref, now time.Time) error {
	if ref.ID != "" {
		return broker.Invalid("id", "is set; remove a queue by its name alone")
	}
	s := &step{script: dropScript, queues: []string{ref.Queue}, now: nowArg(now)}
	if err := b.runOne(ctx, s); err != nil {
		return err
	}
	if s.code == codeDone && number(first(s.reply)) == 0 {
		return b.inUse(ctx, ref.Queue, now)
	}
	if err := b.unlist(context.WithoutCancel(ctx), ref.Queue); err != nil { // a half removed queue is worse than a late answer
		if s.code == codeDone {
			return fmt.Errorf("the queue was removed, but perhaps not its name from the list of queues: %v", err) // not %w, as in missed
		}
		return err
	}
	if s.code == codeAbsent {
		return broker.ErrNotFound
	}
	return nil
}

// unlist removes a queue's name from the list of queues. It adds the name again if the queue exists.
func (b *Broker) unlist(ctx context.Context, queue string) error {
	if err := b.do(ctx, "srem", b.listKey(), nil, queue); err != nil {
		return err
	}
	var exists bool
	err := b.do(ctx, "exists", b.queue(queue).key("m"), func(c *call) error {
		n, err := c.cmd.Int()
		exists = n == 1
		return err
	})
	if err == nil && exists {
		err = b.do(ctx, "sadd", b.listKey(), nil, queue)
	}
	return err
}
