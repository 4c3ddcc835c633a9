package pgbroker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// The index of dead jobs by type reads it from the body as package broker does, and nothing in a body makes it fail.
func TestTypeOf_ReadsTheTypeOfEveryBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	read := func(body []byte) *string {
		var got []byte
		f.ok(f.direct.QueryRow(t.Context(), f.in("select jobs.type_of($1)"), body).Scan(&got))
		if got == nil {
			return nil
		}
		return new(string(got))
	}
	long := strings.Repeat("k", 200)
	for _, want := range []broker.Body{
		{Type: "a", Priority: broker.PriorityNormal},
		{Type: "mail:send", Priority: broker.PriorityUrgent, Payload: []byte("p")},
		{Type: strings.Repeat("t", 127), Priority: broker.PriorityNormal},
		{Type: strings.Repeat("t", 128), Priority: broker.PriorityNormal, Key: "tenant"},
		{Type: strings.Repeat("t", 200), Priority: broker.PriorityNormal, Key: long, GivenID: true,
			Unique: broker.Unique{Key: long, TTL: time.Hour}},
	} {
		body := broker.AppendBody(nil, &want)
		if got := read(body); got == nil || *got != want.Type {
			t.Errorf("type_of gives %v for a body of type %s", got, want.Type)
		}
		for n := range body {
			read(body[:n])
		}
	}
	for _, body := range []string{"", "\x02\x00\x03\x01a", "\x01\xff\xff\xff\xff\xff", "\x01\x00\x03\xff\xff\xff", "\x01\x00\x05\x01ab"} {
		if got := read([]byte(body)); got != nil {
			t.Errorf("type_of gives %q for the malformed body %q", *got, body)
		}
	}
}

// The planner must see in each listing of dead jobs an index that begins with what the query selects: no page may walk
// past other jobs.
func TestPlan_DeadJobsOfATypeOrReasonAreReadFromTheirIndex(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := pgx.ConnectConfig(t.Context(), f.direct.Config().ConnConfig)
	f.ok(err)
	defer conn.Close(t.Context())
	check := func(when string) {
		for name, want := range map[string]string{
			"find_dead": "dead_end", "find_dead_newest": "dead_end", "find_dead_type": "dead_type", "find_dead_type_newest": "dead_type",
			"find_dead_reason": "dead_reason", "find_dead_reason_newest": "dead_reason",
		} {
			p := f.plan(conn, name, "settings")
			got := p.indexes("dead")
			if len(got) != 1 || got[0] != want || strings.Count(p.text, "Sort\n") > 1 { // a page is sorted, and nothing larger
				t.Errorf("%s.sql, planned on %s, goes by %v, want %s in its order:\n%s", name, when, got, want, p.text)
			}
		}
	}
	f.exec("alter table jobs.dead set (autovacuum_enabled = false)")
	const fill = `insert into jobs.dead (died_at, created_at, epoch, queue, lane, id, tail, body)
		select n, 1, 1, q.id, 5, lpad(n::text, 26, '0'), '\x0402', '\x010003016100'
		from generate_series($1::int, $2::int) n, jobs.queue q`
	check("an empty table")
	f.exec("analyze jobs.dead")
	check("an empty table with statistics")
	f.exec(fill, 1, 20_000)
	check("20,000 jobs behind statistics of none")
	f.exec("analyze jobs.dead")
	check("20,000 jobs of one type and reason")
}
