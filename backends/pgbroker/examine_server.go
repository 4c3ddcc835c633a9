package pgbroker

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

const (
	longSnapshot = 5 * time.Minute  // a transaction that is open for longer makes calls slow
	maxSkew      = 10 * time.Second // a larger difference of the clocks is reported
	pruneGrace   = time.Hour        // how late pruning may be
	manyDeltas   = 100_000          // more unfolded changes of counts are reported
	bloatFrom    = 200_000          // a table with more dead rows is reported, if these are also more than
	bloatTimes   = 4                // so many times the live rows, and
	bloatMinutes = 10               // autovacuum has not run for so many minutes
)

// server examines the server's settings, and what keeps dead rows from being removed.
func (e *examiner) server(ctx context.Context) error {
	var clock int64
	var unsafe, held []string
	var vacuums bool
	var readOnly *string
	begun := time.Now()
	if err := e.b.run(ctx, e.b.step("examine_server", one(&clock, &unsafe, &vacuums, &readOnly, &held),
		longSnapshot.Microseconds())); err != nil {
		return err
	}
	e.Records = 1
	at := broker.FromMicros(clock)
	skew := min(at.Sub(begun), 0)
	if ahead := time.Until(at); ahead > 0 {
		skew = ahead
	}
	return e.note(ctx, serverFindings(unsafe, vacuums, readOnly, held, skew)...)
}

func serverFindings(unsafe []string, vacuums bool, readOnly *string, held []string, skew time.Duration) (found []noted) {
	add := func(code, what string) { found = append(found, noted{Finding: told(code, "", "", "%s", what)}) }
	for _, setting := range unsafe {
		add("commits-not-durable", setting)
	}
	if !vacuums {
		add("autovacuum-off", "autovacuum is off for the whole server")
	}
	if readOnly != nil {
		add("server-read-only", *readOnly)
	}
	for _, holder := range held {
		add("snapshot-held", holder)
	}
	if skew.Abs() > maxSkew {
		add("clocks-differ", fmt.Sprintf("its clock differs by %v from that of this machine", skew.Round(time.Second)))
	}
	return found
}

// relation is a table or an index as examine_schema.sql shows it.
type relation struct {
	migration          int
	name               string
	index              bool
	logged, valid, off bool
	dead, live         int64
	vacuumed           *int64 // minutes ago
}

// schema examines tables and indexes.
func (e *examiner) schema(ctx context.Context) error {
	var all []relation
	columns := func(r *relation) []any {
		return []any{&r.migration, &r.name, &r.index, &r.logged, &r.valid, &r.off, &r.dead, &r.live, &r.vacuumed}
	}
	if err := e.b.run(ctx, e.b.step("examine_schema", list(&all, columns), e.b.config.Schema)); err != nil {
		return err
	}
	e.Records = len(all)
	return e.note(ctx, schemaFindings(all)...)
}

var (
	madeTable = regexp.MustCompile(`(?m)^create table jobs\.(\w+)`)
	madeIndex = regexp.MustCompile(`(?m)^create (?:unique )?index (?:concurrently )?(\w+)`)
	dropped   = regexp.MustCompile(`(?m)^drop (?:table|index) (?:if exists )?jobs\.(\w+)`)
)

// expected lists the tables and the indexes that the migrations make.
func expected() (tables, indexes []string, migrations int) {
	all := checkedMigrations()
	gone := make(map[string]bool)
	for _, m := range all {
		for _, name := range dropped.FindAllStringSubmatch(m.sql, -1) {
			gone[name[1]] = true
		}
		for _, name := range madeTable.FindAllStringSubmatch(m.sql, -1) {
			tables = append(tables, name[1])
		}
		for _, name := range madeIndex.FindAllStringSubmatch(m.sql, -1) {
			indexes = append(indexes, name[1])
		}
	}
	isGone := func(name string) bool { return gone[name] }
	return slices.DeleteFunc(tables, isGone), slices.DeleteFunc(indexes, isGone), len(all)
}

func schemaFindings(all []relation) (found []noted) {
	add := func(code, id, what string, args ...any) {
		found = append(found, noted{Finding: told(code, "", id, what, args...)})
	}
	tables, indexes, migrations := expected()
	there := make(map[string]bool)
	for _, r := range all {
		there[r.name] = true
		if r.migration != migrations && len(found) == 0 {
			add("schema-not-current", "", "the schema has migration %d, this program knows %d", r.migration, migrations)
		}
		if r.index {
			if !r.valid {
				add("index-invalid", r.name, "the index is not valid")
			}
			continue
		}
		if !r.logged {
			add("table-unlogged", r.name, "the table is unlogged")
		}
		if r.off {
			add("autovacuum-off", r.name, "autovacuum is off for the table")
		}
		if r.dead > bloatFrom && r.dead > bloatTimes*r.live && (r.vacuumed == nil || *r.vacuumed > bloatMinutes) {
			add("table-bloated", r.name, "the table has %d dead rows and %d live ones", r.dead, r.live)
		}
	}
	for _, name := range tables {
		if !there[name] {
			add("table-missing", name, "the table does not exist")
		} else if name != "history" && !there[name+"_pkey"] && hasKey(name) {
			add("index-missing", name+"_pkey", "the primary key of %s does not exist", name)
		}
	}
	for _, name := range indexes {
		if !there[name] {
			add("index-missing", name, "the index does not exist")
		}
	}
	return found
}

// hasKey reports whether a table has a primary key: all tables do, except count_delta, call,
// and history with its partitions.
func hasKey(table string) bool {
	return table != "count_delta" && table != "call" && !strings.HasPrefix(table, "history") || table == "history_day"
}

// days examines the partitions of history, records that should have been pruned, and the deltas
// of counts.
func (e *examiner) days(ctx context.Context) error {
	var today int
	var listed, unlisted []int32
	var first, last *int
	var oldest *int64
	var deltas int64
	err := e.b.run(ctx, e.b.byIndex(true), e.b.step("examine_days", one(&today, &listed, &unlisted, &first, &last, &oldest, &deltas),
		e.b.config.Schema))
	if err != nil {
		return err
	}
	e.Records = 1
	var found []noted
	for _, day := range listed {
		found = append(found, noted{told("history-partition-missing", "", itoa(int64(day)), "day %d is listed and has no partition", day),
			e.run(e.b.step("examine_day", nil, day, false))})
	}
	for _, day := range unlisted {
		found = append(found, noted{told("history-partition-unlisted", "", itoa(int64(day)), "the partition of day %d is not listed", day),
			e.run(e.b.step("examine_day", nil, day, true))})
	}
	if first != nil && *first < today-1 || last != nil && *last < today && len(listed) == 0 {
		found = append(found, noted{Finding: told("history-days-behind", "", "", "the partitions are of the days %d to %d, today is %d",
			*first, *last, today)})
	}
	now := broker.Micros(e.Now)
	if oldest != nil && *oldest < now-pruneGrace.Microseconds() {
		found = append(found, noted{Finding: told("prune-behind", "", "", "a record expired %v ago and is still stored",
			time.Duration(now-*oldest).Round(1000)*time.Microsecond)})
	}
	if deltas > manyDeltas {
		found = append(found, noted{told("deltas-unfolded", "", "", "over %d changes of counts wait to be folded", manyDeltas), e.b.fold})
	}
	return e.note(ctx, found...)
}
