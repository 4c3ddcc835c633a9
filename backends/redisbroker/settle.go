package redisbroker

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Settle ends leases, each with its outcome. §10. One round trip.
func (b *Broker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	batches := b.settleBatches(&req)
	if len(batches) == 0 {
		return nil, broker.About(b.usable(ctx), "settle", "", "")
	}
	if err := b.run(ctx, nil, settleSteps(batches)...); err != nil {
		return nil, broker.About(err, "settle", "", "")
	}
	return verdicts(batches, &req)
}

// settleBatch is the part of a request that goes into one script call: items
// of one queue.
type settleBatch struct {
	queue  string
	offset int   // how many items of the queue are in earlier batches
	items  []int // the indexes of its items in the request
	texts  *arena
	runs   []run
	sum    broker.Totals // the sums of the items' times
	spent  piece         // how long each item waited and ran, as settle.lua reads it; nil if all are 0
	step   *step
}

// run is a number of consecutive items with the same outcome. each says whether every item has
// two more pieces.
type run struct {
	items   int
	outcome string
	each    bool
}

// settleBatches divides a request into batches. It must divide a repeated request in the same way.
func (b *Broker) settleBatches(req *broker.SettleRequest) []*settleBatch {
	var all []*settleBatch
	last := make(map[string]*settleBatch, 1)
	for i := range req.Items {
		item := &req.Items[i]
		batch := last[item.Job.Queue]
		if batch == nil || len(batch.items) >= callJobs || len(batch.texts.buf) >= callBytes {
			offset := 0
			if batch != nil {
				offset = batch.offset + len(batch.items)
			}
			n := min(len(req.Items)-i, callJobs)
			batch = &settleBatch{queue: item.Job.Queue, offset: offset, items: make([]int, 0, n), texts: newArena()}
			last[item.Job.Queue] = batch
			all = append(all, batch)
		}
		batch.items = append(batch.items, i)
		batch.texts.addID(item.Job.ID)
		batch.add(item, req.History)
	}
	for _, batch := range all {
		args := append(batch.texts.args, req.Worker, req.Number, batch.offset, b.channel(batch.queue),
			batch.sum.Waits, batch.sum.WaitedMicros, batch.sum.Runs, batch.sum.RanMicros, &batch.spent)
		batch.step = &step{script: settleScript, queues: []string{batch.queue}, now: nowArg(req.Now),
			args: batch.args(args), rows: batch.texts.rows}
	}
	return all
}

// add adds an item to the last run, or begins a run if its outcome differs.
func (s *settleBatch) add(item *broker.Settlement, history int) {
	s.spend(item)
	outcome, each := s.texts.addOutcome(item, history)
	if n := len(s.runs); n > 0 && s.runs[n-1].outcome == string(outcome) && s.runs[n-1].each == each {
		s.runs[n-1].items++
		return
	}
	r := run{items: 1, outcome: completed, each: each}
	if string(outcome) != completed {
		r.outcome = string(outcome)
	}
	s.runs = append(s.runs, r)
}

// spend adds how long an item waited and ran.
func (s *settleBatch) spend(item *broker.Settlement) {
	if item.Waited == 0 && item.Ran == 0 && s.spent == nil {
		return
	}
	if s.spent == nil {
		s.spent = make(piece, 16*(len(s.items)-1), 16*cap(s.items)) // zeros for the earlier items
	}
	s.spent = binary.BigEndian.AppendUint64(s.spent, uint64(broker.DurationMicros(item.Waited)))
	s.spent = binary.BigEndian.AppendUint64(s.spent, uint64(broker.DurationMicros(item.Ran)))
	s.sum.Took(item)
}

// args appends the IDs, and the runs with their texts.
func (s *settleBatch) args(args []any) []any {
	pieces := s.texts.seal()
	at, n := len(args)+1, len(s.items)
	args = slices.Grow(append(args, n), len(pieces)+3*len(s.runs))[:at+n]
	for _, r := range s.runs {
		args = append(args, r.items, r.outcome, r.each)
		for range r.items {
			args[at] = &pieces[0]
			at++
			if pieces = pieces[1:]; r.each {
				args = append(args, &pieces[0], &pieces[1])
				pieces = pieces[2:]
			}
		}
	}
	s.texts.args = args
	return args
}

// settleSteps returns the batches' calls.
func settleSteps(batches []*settleBatch) (steps []*step) {
	for _, batch := range batches {
		steps = append(steps, batch.step)
	}
	return steps
}

// verdicts reads the answers and frees the arguments of the calls. It returns an error only if
// the one call with all items failed.
func verdicts(batches []*settleBatch, req *broker.SettleRequest) ([]broker.Verdict, error) {
	all := make([]broker.Verdict, len(req.Items))
	for _, batch := range batches {
		var digits string
		if err := batch.step.err; err != nil {
			if len(batch.items) == len(all) {
				batch.texts.free()
				return nil, broker.About(err, "settle", "", "")
			}
		} else {
			digits = text(first(batch.step.reply)) // "" if the queue does not exist
		}
		batch.texts.free()
		for n, i := range batch.items {
			v := &all[i]
			v.Queue, v.ID = batch.queue, req.Items[i].Job.ID
			switch {
			case batch.step.err != nil:
				v.Err = broker.About(batch.step.err, "settle", v.Queue, v.ID)
			case n < len(digits) && digits[n] != '0':
				v.State = broker.State(digits[n] - '0')
			default:
				v.Err = broker.About(broker.ErrLeaseLost, "settle", v.Queue, v.ID)
			}
		}
	}
	return all, nil
}
