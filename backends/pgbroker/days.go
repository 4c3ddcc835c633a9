package pgbroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	// How often a process sees to the partitions.
	daysPause = 10 * time.Minute

	// How many days ahead there are partitions at most: each costs every
	// enqueue a look for its ID. Records kept longer are pruned one by one.
	mostDays = 35

	// How long an attempt may keep others from history; the next comes soon
	// enough.
	daysLockWait = 100 * time.Millisecond
)

// turnDays makes the partitions of the days to come, and drops those of days
// that are over. Any number of servers may do so at once: whoever has to wait
// for a lock gives up until the next time.
func (b *Broker) turnDays(ctx context.Context, got *broker.Pruned) error {
	if last := b.daysTurned.Load(); last != 0 && time.Since(time.Unix(0, last)) < daysPause {
		return nil
	}
	b.daysTurned.Store(time.Now().UnixNano())
	var now int64
	var keep int
	var days []int32
	if err := b.call(ctx, b.step("day_wanted", one(&now, &days, &keep))); err != nil {
		return err
	}
	today := int(now / (24 * time.Hour).Microseconds())
	for _, day := range days {
		if int(day) < today {
			if err := b.endDay(ctx, int(day), got); err != nil && !elsewhere(err) {
				return err
			}
		}
	}
	if keep == 0 || keep > mostDays {
		return nil
	}
	for day := today; day <= today+keep+1; day++ {
		if !slices.Contains(days, int32(day)) {
			if err := b.beginDay(ctx, day); err != nil && !elsewhere(err) {
				return err
			}
		}
	}
	return nil
}

// elsewhere reports whether another server is at it, or has done it.
func elsewhere(err error) bool {
	switch sqlState(err) {
	case lockTimeout, uniqueViolation, undefinedTable:
		return true
	}
	return false
}

// beginDay makes the partition of the records that expire on a day.
func (b *Broker) beginDay(ctx context.Context, day int) error {
	return b.transact(ctx, func(s session) error {
		return s.run(ctx, b.step("settings", nil, nil, milliseconds(daysLockWait)),
			step{sql: b.ddl("insert into jobs.history_day (day) values (%[1]d)", day)}, // by one server only
			step{sql: b.ddl("create table jobs.history_%[1]d (like jobs.history including defaults)", day)},
			step{sql: b.ddl("alter table jobs.history attach partition jobs.history_%[1]d for values in (%[1]d)", day)})
	})
}

// endDay drops the partition of a day that is over. While what is in it is
// counted, others may read it, and nothing is added to a day that is over.
func (b *Broker) endDay(ctx context.Context, day int, got *broker.Pruned) error {
	var completed, cancelled int
	err := b.transact(ctx, func(s session) error {
		return s.run(ctx, b.step("settings", nil, nil, milliseconds(daysLockWait)),
			step{sql: b.ddl("lock table jobs.history_%[1]d in share row exclusive mode", day)}, // so that nobody deletes what is counted
			b.step("day_end", one(&completed, &cancelled), day),
			step{sql: b.ddl("drop table jobs.history_%[1]d", day)})
	})
	if err == nil {
		got.Completed, got.Cancelled = got.Completed+completed, got.Cancelled+cancelled
	}
	return err
}

// ddl is a statement about the partition of a day; such statements take no
// parameters.
func (b *Broker) ddl(format string, day int) string {
	return inSchema(fmt.Sprintf(format, day), b.config.Schema)
}
