package pgbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Prune removes records whose retention is over, in a transaction for each queue, and folds
// the deltas of counts. Without a Now it also makes the partitions of coming days, and drops
// the partitions of past days with all their records. So a record that its queue keeps for a
// day or longer may stay for up to a day more. §23.
func (b *Broker) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return broker.Pruned{}, broker.About(err, "prune", "", "")
	}
	var got broker.Pruned
	now := clockOf(req.Now)
	var errs []error
	for _, queue := range distinct(req.Queues) {
		errs = append(errs, broker.About(b.pruneQueue(ctx, queue, now, req.Max, &got), "prune", queue, ""))
	}
	marks := 0
	err := b.run(ctx, b.byIndex(false), b.step("prune_marks", one(&marks), now.micros, req.Max))
	if err == nil {
		got.Other += marks
		got.More = got.More || marks == req.Max
	}
	err = errors.Join(err, b.run(ctx, b.step("waiter_leave", nil, 0)))
	if req.Now.IsZero() {
		err = errors.Join(err, b.turnDays(ctx, &got))
	}
	err = errors.Join(err, b.fold(ctx))
	return got, errors.Join(append(errs, broker.About(err, "prune", "", ""))...)
}

func (b *Broker) pruneQueue(ctx context.Context, queue string, now clock, limit int, got *broker.Pruned) error {
	var n [7]int
	err := b.run(ctx, b.byIndex(false), b.notNewer(queue),
		b.step("prune_records", one(&n[0], &n[1]), now.micros, queue, limit),
		b.step("prune_surplus", one(&n[2], &n[3]), now.micros, queue, limit),
		b.step("prune_dead", one(&n[4]), now.micros, queue, limit),
		b.step("prune_rest", one(&n[5], &n[6]), now.micros, queue, limit))
	if err != nil {
		return err
	}
	got.Completed, got.Cancelled = got.Completed+n[0]+n[2], got.Cancelled+n[1]+n[3]
	got.Dead, got.Other = got.Dead+n[4], got.Other+n[5]
	got.More = got.More || n[0]+n[1] == limit || n[2]+n[3] == limit || n[4] == limit || n[5]+n[6] >= limit
	return nil
}

const (
	// How often a process checks the partitions.
	daysPause = 10 * time.Minute

	// For how many days ahead there are partitions at most. Every enqueue looks for its ID in
	// each partition, so they must be few. Records that a queue keeps for longer are pruned
	// one by one.
	mostDays = 35

	// How long the drop of a partition may block other statements on history: longer than
	// most statements take, and too short to be noticed. While a dump of the database runs,
	// the drop fails, and a later check tries it again.
	daysLockWait = 20 * time.Millisecond
)

// turnDays makes the partitions of coming days, and drops the partitions of past days. Any
// number of servers may call it: only one of them works at a time, and it stops if it would
// have to wait longer for a lock.
func (b *Broker) turnDays(ctx context.Context, got *broker.Pruned) error {
	if since := time.Since(time.Unix(0, b.daysTurned.Load())); since >= 0 && since < daysPause { // below 0: the host's clock was set back
		return nil
	}
	b.daysTurned.Store(time.Now().UnixNano())
	err := b.changeDays(ctx, got)
	switch state := sqlState(err); {
	case errors.Is(err, errDaysTaken), state == lockTimeout:
		return nil
	case state == duplicateTable, state == undefinedTable: // another server made or dropped the partition in between
		return nil
	case state == notPermitted:
		b.daysDenied.Do(func() {
			b.config.Logger.Warn("the role of this server may not make and drop partitions of job records: unless a server whose role owns the "+
				"schema does, records that queues keep for days are removed one by one", "schema", b.config.Schema)
		})
		return nil
	}
	return err
}

func (b *Broker) changeDays(ctx context.Context, got *broker.Pruned) error {
	var today, keep int
	var listed, there []int32
	if err := b.run(ctx, b.step("day_wanted", one(&today, &listed, &there, &keep), b.config.Schema, mostDays)); err != nil {
		return err
	}
	// Make partitions before dropping others, since readers of records do not block that.
	for day := today; keep > 0 && day <= today+keep+1; day++ {
		if !slices.Contains(there, int32(day)) {
			if err := b.beginDay(ctx, day); err != nil {
				return err
			}
		}
		if !slices.Contains(listed, int32(day)) {
			if err := b.run(ctx, b.step("day_list", nil, day)); err != nil {
				return err
			}
		}
	}
	for _, day := range there {
		if int(day) < today {
			if err := b.endDay(ctx, int(day), got); err != nil {
				return err
			}
		}
	}
	return nil
}

// beginDay makes the partition of the records that expire on a day. A later transaction
// lists it, so that a reader of the list can see the partition.
func (b *Broker) beginDay(ctx context.Context, day int) error {
	return b.changeDay(ctx,
		step{sql: b.ddl("create table jobs.history_%[1]d (like jobs.history including defaults)", day)},
		step{sql: b.ddl("alter table jobs.history attach partition jobs.history_%[1]d for values in (%[1]d)", day)})
}

// endDay drops the partition of a past day. Other transactions may read its records while they
// are counted. No transaction adds records to a past day.
func (b *Broker) endDay(ctx context.Context, day int, got *broker.Pruned) error {
	var completed, cancelled int
	err := b.changeDay(ctx,
		step{sql: b.ddl("lock table jobs.history_%[1]d in share row exclusive mode", day)}, // so that nobody deletes the counted records
		b.step("day_end", one(&completed, &cancelled), day),
		step{sql: b.ddl("drop table jobs.history_%[1]d", day)})
	if err == nil {
		got.Completed, got.Cancelled = got.Completed+completed, got.Cancelled+cancelled
	}
	return err
}

// changeDay changes the partitions, unless another server is changing them.
func (b *Broker) changeDay(ctx context.Context, steps ...step) error {
	return b.transact(ctx, func(s session) error {
		mine := false
		err := s.run(ctx, b.step("settings", nil, nil, milliseconds(daysLockWait)),
			b.step("day_mine", one(&mine), lockNumber("days", b.config.Schema)))
		if err == nil && !mine {
			err = errDaysTaken
		}
		if err != nil {
			return err
		}
		return s.run(ctx, steps...)
	})
}

var errDaysTaken = errors.New("another server is changing the partitions")

// lockNumber returns the number of an advisory lock of a schema.
func lockNumber(purpose, schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("jobs " + purpose + " " + schema))
	return int64(h.Sum64())
}

// ddl returns a statement about the partition of a day; such statements take no parameters.
func (b *Broker) ddl(format string, day int) string {
	return inSchema(fmt.Sprintf(format, day), b.config.Schema)
}
