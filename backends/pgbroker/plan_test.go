package pgbroker_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
)

// hot lists the statements whose cost must not depend on the number of jobs, with the indexes
// on job that each may use, and the settings of its pipeline.
var hot = []struct {
	name    string
	before  string
	indexes []string
}{
	{"enqueue_plain", "", nil},
	{"enqueue_keys", "settings", nil},
	{"enqueue", "settings", nil},
	{"enqueue_seal", "settings", []string{"job_pkey"}},
	{"lease_due", "settings", []string{"job_due", "job_ready"}},
	{"claim_due", "settings", []string{"job_due", "job_pkey"}},
	{"claim", "settings", []string{"job_ready"}},
	{"claim_rounds", "settings", []string{"job_ready"}},
	{"claim_limited", "settings", []string{"job_ready"}},
	{"limited_left", "settings", []string{"job_ready"}},
	{"flow_room", "settings", []string{"job_lease"}},
	{"flow_retry", "settings", []string{"job_due", "job_pkey"}},
	{"flow_wait", "settings", nil},
	{"flow_lock", "settings", nil},
	{"flow_take", "settings", []string{"job_head", "job_keyed", "job_pkey", "job_ready", "job_turn"}},
	{"flow_rounds", "settings", []string{"job_head", "job_keyed", "job_pkey", "job_ready", "job_turn"}},
	{"flow_left", "settings", []string{"job_keyed", "job_ready"}},
	{"key_depth", "settings", []string{"job_turn"}},
	{"enqueue_plain_keyed", "", nil},
	{"floor", "settings", []string{"job_due", "job_ready"}},
	{"settle", "settings", []string{"job_pkey"}},
	{"settle_done", "settings", []string{"job_pkey"}},
	{"cancelled", "settings", []string{"job_pkey"}},
	{"renew", "settings", nil},
	{"renew_pulse", "settings", nil},
	{"renew_lapse", "settings", nil},
	{"renew_cancel", "settings", []string{"job_cancel"}},
	{"renew_held", "settings", []string{"job_lease"}},
	{"reclaim_end", "settings", nil},
	{"reclaim", "settings", []string{"job_lease"}},
	{"reclaim_drained", "settings", []string{"job_lease"}},
	{"retire_end", "settings", nil},
	{"retire_held", "settings", []string{"job_lease"}},
	{"queues", "settings", []string{"job_due", "job_keyed", "job_ready"}},
	{"queues_workers", "settings", []string{"job_lease"}},
}

// A generic plan is made once per connection, at whatever size the tables and
// their statistics happen to have, and stays.
func TestPlan_HotStatementsGoByTheirIndexAtEverySize(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("alter table jobs.job set (autovacuum_enabled = false)") // the test says when statistics are taken
	f.checkPlans("an empty table")
	f.exec("analyze jobs.job, jobs.queue, jobs.worker")
	f.checkPlans("an empty table with statistics")

	const fill = `insert into jobs.job (seq, created_at, run_at, queue, state, lane, id, key, unique_key, body)
		select n, 1, case when n % 50 = 0 then n end, q.id, case when n % 50 = 0 then 2 else 1 end, 5, lpad(n::text, 26, '0'),
		       case when n % 10 = 0 then 'tenant' || n % 1000 end, case when n % 100 = 0 then 'unique' || n end, '\x00'
		from generate_series($1::int, $2::int) n, jobs.queue q`
	f.exec(fill, 1, 1000)
	f.checkPlans("1,000 jobs behind statistics of none")
	f.exec("analyze jobs.job")
	f.checkPlans("1,000 jobs, none of them leased")
	f.exec(fill, 1001, 50_000)
	f.checkPlans("50,000 jobs behind statistics of 1,000")
	f.exec("analyze jobs.job")
	f.checkPlans("50,000 jobs, none of them leased")
	f.exec("update jobs.job j set state = 3, worker = w.num from jobs.worker w where j.seq <= 5000 and j.state = 1")
	f.exec("analyze jobs.job")
	f.checkPlans("50,000 jobs, some of them leased by one worker")
}

// checkPlans looks at the generic plan of each hot statement, on a connection
// that has planned nothing before.
func (f *fixture) checkPlans(when string) {
	f.t.Helper()
	conn, err := pgx.ConnectConfig(f.t.Context(), f.direct.Config().ConnConfig)
	f.ok(err)
	defer conn.Close(f.t.Context())
	for _, h := range hot {
		p := f.plan(conn, h.name, h.before)
		for _, table := range []string{"job", "dead", "history", "history_other", "unique_key", "remembered", "key", "call", "limiter"} {
			if p.scans(table, "Seq Scan") {
				f.t.Errorf("%s.sql, planned on %s, scans all of %s:\n%s", h.name, when, table, p.text)
			}
		}
		if p.walks("unique_key", "key") {
			f.t.Errorf("%s.sql, planned on %s, looks at unique keys other than its own:\n%s", h.name, when, p.text)
		}
		for _, index := range p.indexes("job") {
			if !slices.Contains(h.indexes, index) {
				f.t.Errorf("%s.sql, planned on %s, goes by %s, want only %v:\n%s", h.name, when, index, h.indexes, p.text)
			}
		}
		for _, index := range h.indexes {
			if !slices.Contains(p.indexes("job"), index) {
				f.t.Errorf("%s.sql, planned on %s, does not go by %s:\n%s", h.name, when, index, p.text)
			}
		}
	}
	for _, name := range []string{"settle_done"} {
		if p := f.plan(conn, name, "settings"); !p.probesInOrder("job_pkey") {
			f.t.Errorf("%s.sql, planned on %s, does not take its locks in the order of the IDs:\n%s", name, when, p.text)
		}
	}
	for _, name := range []string{"claim", "claim_rounds", "floor", "queues"} {
		if p := f.plan(conn, name, "settings"); !p.orderedBy("job_ready", "queue", "lane", "seq") {
			f.t.Errorf("%s.sql, planned on %s, does not begin at an entry of a lane: a condition on queue, lane or seq "+
				"is not a condition of job_ready:\n%s", name, when, p.text)
		} else if name == "claim" && p.sorts("job_ready") {
			f.t.Errorf("%s.sql, planned on %s, sorts what it read of job_ready:\n%s", name, when, p.text)
		}
	}
	// The first search of claim_due.sql makes jobs pending; the others look for the next due
	// time, from now on.
	for name, want := range map[string]int{"lease_due": 2, "claim_due": 1, "floor": 1} {
		if p := f.plan(conn, name, "settings"); p.entered("job_due", "ROW(run_at, seq) >") != want {
			f.t.Errorf("%s.sql, planned on %s, does not begin at a place in the order of due times:\n%s", name, when, p.text)
		}
	}
	if p := f.plan(conn, "renew_lapse", "settings"); p.entered("pulse_until", "until >") != 1 {
		f.t.Errorf("renew_lapse.sql, planned on %s, looks at all pulses for the first that runs out:\n%s", when, p.text)
	}
	if p := f.plan(conn, "queues", "settings"); p.entered("job_due", "run_at >") != 2 {
		f.t.Errorf("queues.sql, planned on %s, does not begin at a place in the order of due times:\n%s", when, p.text)
	}
}

// entered returns how many times an index is searched by a condition.
func (p queryPlan) entered(index, condition string) (n int) {
	for _, node := range p.nodes {
		if node["Index Name"] == index && strings.Contains(fmt.Sprint(node["Index Cond"]), condition) {
			n++
		}
	}
	return n
}

// The statements must really do what the scan floor relies on: the planner drops what it finds
// unused.
func TestPlan_PlansAssignTheTransactionsIDBeforeATurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range []string{"enqueue_plain", "enqueue", "settle"} {
		tx := f.begin(pgx.TxOptions{})
		text := f.statement(name)
		_, err := tx.Exec(t.Context(), "set local plan_cache_mode = force_generic_plan")
		f.ok(err)
		_, err = tx.Exec(t.Context(), "prepare "+name+" as "+text)
		f.ok(err)
		rows, err := tx.Query(t.Context(), "explain (verbose) execute "+name+"(null"+strings.Repeat(", null", parameters(text)-1)+")",
			pgx.QueryExecModeSimpleProtocol)
		f.ok(err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.ok(err)
		if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "pg_current_xact_id()") {
			t.Errorf("%s.sql draws turns without having assigned the transaction's ID:\n%s", name, plan)
		}
		f.ok(tx.Rollback(t.Context()))
	}
}

// queryPlan is a plan as EXPLAIN shows it.
type queryPlan struct {
	nodes []map[string]any
	text  string // a node per line
}

// plan returns the generic plan of a statement, whatever its arguments are.
func (f *fixture) plan(conn *pgx.Conn, name, before string) queryPlan {
	f.t.Helper()
	ctx := f.t.Context()
	tx, err := conn.Begin(ctx)
	f.ok(err)
	defer tx.Rollback(ctx)
	text := f.statement(name)
	if before != "" {
		_, err = tx.Exec(ctx, f.statement(before), nil, nil)
		f.ok(err)
	}
	_, err = tx.Exec(ctx, "set local plan_cache_mode = force_generic_plan")
	f.ok(err)
	_, err = tx.Exec(ctx, "prepare looked_at as "+text)
	f.ok(err)
	call := "looked_at"
	if n := parameters(text); n > 0 {
		call += "(null" + strings.Repeat(", null", n-1) + ")"
	}
	var shown []byte
	f.ok(tx.QueryRow(ctx, "explain (format json) execute "+call, pgx.QueryExecModeSimpleProtocol).Scan(&shown))
	_, err = tx.Exec(ctx, "deallocate looked_at")
	f.ok(err)
	return parsePlan(f, shown)
}

// statement returns a statement as the broker sends it.
func (f *fixture) statement(name string) string {
	f.t.Helper()
	text, ok := pgbroker.Statements(f.schema)[name]
	if !ok {
		f.t.Fatalf("there is no statement %q", name)
	}
	return text
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// parameters returns the highest number of a parameter outside comments.
func parameters(text string) (most int) {
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		for _, m := range parameter.FindAllStringSubmatch(code, -1) {
			n, _ := strconv.Atoi(m[1])
			most = max(most, n)
		}
	}
	return most
}

func parsePlan(f *fixture, shown []byte) queryPlan {
	f.t.Helper()
	var plans []struct{ Plan map[string]any }
	f.ok(json.Unmarshal(shown, &plans))
	var p queryPlan
	var walk func(node map[string]any, depth int)
	walk = func(node map[string]any, depth int) {
		p.nodes = append(p.nodes, node)
		p.text += strings.Repeat("  ", depth)
		for _, part := range []string{"Node Type", "Relation Name", "Index Name", "Index Cond", "Filter"} {
			if node[part] != nil {
				p.text += fmt.Sprint(" ", node[part])
			}
		}
		p.text += "\n"
		children, _ := node["Plans"].([]any)
		for _, child := range children {
			walk(child.(map[string]any), depth+1)
		}
	}
	walk(plans[0].Plan, 0)
	return p
}

func (p queryPlan) scans(table, how string) bool {
	return slices.ContainsFunc(p.nodes, func(n map[string]any) bool { return n["Relation Name"] == table && n["Node Type"] == how })
}

// walks reports whether the plan reads an index of a table from its front, without a condition
// on the column.
func (p queryPlan) walks(table, column string) bool {
	return slices.ContainsFunc(p.nodes, func(n map[string]any) bool {
		return n["Relation Name"] == table && n["Index Name"] != nil && !strings.Contains(fmt.Sprint(n["Index Cond"]), column+" ")
	})
}

// sorts reports whether the plan sorts what it reads from an index.
func (p queryPlan) sorts(index string) bool {
	var reads func(node map[string]any) bool
	reads = func(node map[string]any) bool {
		children, _ := node["Plans"].([]any)
		return node["Index Name"] == index || slices.ContainsFunc(children, func(c any) bool { return reads(c.(map[string]any)) })
	}
	return slices.ContainsFunc(p.nodes, func(n map[string]any) bool {
		return strings.HasSuffix(fmt.Sprint(n["Node Type"]), "Sort") && reads(n)
	})
}

// probesInOrder reports whether a join reads an index in its order.
func (p queryPlan) probesInOrder(index string) bool {
	return slices.ContainsFunc(p.nodes, func(n map[string]any) bool {
		return n["Node Type"] == "Index Scan" && n["Index Name"] == index && n["Parent Relationship"] == "Outer"
	})
}

// indexes returns the indexes that the plan uses, of those whose names begin with the table's.
func (p queryPlan) indexes(table string) (all []string) {
	for _, n := range p.nodes {
		if index, _ := n["Index Name"].(string); strings.HasPrefix(index, table+"_") && !slices.Contains(all, index) {
			all = append(all, index)
		}
	}
	return all
}

// orderedBy reports whether an index is searched by all the columns.
func (p queryPlan) orderedBy(index string, columns ...string) bool {
	return slices.ContainsFunc(p.nodes, func(n map[string]any) bool {
		condition := fmt.Sprint(n["Index Cond"])
		return n["Index Name"] == index && !slices.ContainsFunc(columns, func(c string) bool { return !strings.Contains(condition, c+" ") })
	})
}
