package pgbroker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/conformance"
)

// pooledSchemas are schemas with a pool each, which rules use one after the other: making
// them, and connections with prepared statements, takes longer than most rules.
type pooledSchemas struct {
	t      *testing.T
	direct *pgxpool.Pool
	make   func(conformance.TB) *pooledSchema
	shared bool // the pools are of PgBouncer, whose connections to the server have the names of several schemas in turn

	mu   sync.Mutex
	free []*pooledSchema
}

// pooledSchema is a schema and a pool. Only the connections of the pool have its name.
type pooledSchema struct {
	schema  string
	pool    *pgxpool.Pool
	bounced bool // connections were ended, which the pool may not know of yet
}

// take returns a schema without a job in it, for one rule.
func (ps *pooledSchemas) take(tb conformance.TB) *pooledSchema {
	tb.Helper()
	ps.mu.Lock()
	var p *pooledSchema
	if last := len(ps.free) - 1; last >= 0 {
		p, ps.free = ps.free[last], ps.free[:last]
	}
	ps.mu.Unlock()
	if p == nil {
		p = ps.make(ps.t)
	}
	tb.Cleanup(func() { // after the handles were closed
		if tb.Failed() || p.bounced || !ps.atRest(p) {
			p.pool.Close()
			return
		}
		if _, err := ps.direct.Exec(context.Background(), inSchema(emptied, p.schema)); err != nil {
			tb.Errorf("emptying the schema: %v", err)
			return
		}
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.free = append(ps.free, p)
	})
	return p
}

// atRest reports whether nothing can change the schema any more: only connections of the pool
// have its name, unless they are shared, and they are idle.
func (ps *pooledSchemas) atRest(p *pooledSchema) bool {
	for range 100 { // a server takes a moment to end the connection of a handle that was closed
		var there, idle int32
		err := ps.direct.QueryRow(context.Background(), "select count(*), count(*) filter (where state = 'idle') from pg_stat_activity "+
			"where application_name = $1", p.schema).Scan(&there, &idle)
		if total := p.pool.Stat().TotalConns(); err == nil && there == idle && (ps.shared || there == total) {
			return true
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false
}

// emptied leaves a schema as Migrate does, but for the numbers that its sequences give
// next. Jobs go first: the end of a key has jobs follow that wait for it.
const emptied = `
	delete from jobs.job;
	do $$
	declare
		t record;
	begin
		for t in select format('%I.%I', n.nspname, c.relname) as name, c.relispartition and c.relname <> 'history_other' as made
				from pg_class c join pg_namespace n on n.oid = c.relnamespace
				where n.oid = (select relnamespace from pg_class where oid = 'jobs.job'::regclass) and c.relkind in ('r', 'p')
					and c.relname <> 'migration' loop
			execute case when t.made then 'drop table ' else 'delete from ' end || t.name;
		end loop;
	end $$`
