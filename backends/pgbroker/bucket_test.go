package pgbroker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// SQL counts like broker.Bucket, whatever was counted before and however the clock and the
// rate changed.
func TestBucket_CountsAsTheContractDoes(t *testing.T) {
	t.Parallel()
	f := open(t)
	const n = 20_000
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	var at, used, jobs, per, burst, now []int64
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	for range n {
		p := 1 + r.Int64N(1<<uint(1+r.IntN(34)))
		j := 1 + r.Int64N(min(1<<uint(1+r.IntN(20)), 1<<53/p))
		b := r.Int64N(max(1, min(1<<uint(r.IntN(20)), 1<<53/p-j-1)))
		a := base + r.Int64N(3*p) - p
		u := r.Int64N(2*(j+b+2)) - (b + 1)
		if r.IntN(10) == 0 {
			a, u = 0, 0
		}
		at, used, jobs, per, burst = append(at, a), append(used, u), append(jobs, j), append(per, p), append(burst, b)
		now = append(now, base+r.Int64N(5*p)-p)
	}
	_, part := readQuery("parts/bucket.sql")
	rows, err := f.db.Query(t.Context(), `select f.at, f.used, f.free, coalesce(f.next, 0)
		from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
			with ordinality as b(at, used, jobs, per, burst, now, ord) cross join lateral (`+part+`) f order by b.ord`, at, used, jobs, per, burst,
		now)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for ; rows.Next(); i++ {
		var got broker.Bucket
		var free, next int64
		if err := rows.Scan(&got.At, &got.Used, &free, &next); err != nil {
			t.Fatal(err)
		}
		want := broker.Bucket{At: at[i], Used: used[i]}
		rate := broker.Rate{Jobs: jobs[i], Per: time.Duration(per[i]) * time.Microsecond, Burst: burst[i]}
		wantFree, wantNext := want.Free(rate, now[i])
		if got != want || free != wantFree || next != wantNext {
			t.Fatalf("bucket {%d %d} of %+v at %d: SQL says %+v, %d free, next at %d; want %+v, %d, %d", at[i], used[i], rate, now[i], got, free,
				next,
				want, wantFree, wantNext)
		}
	}
	if rows.Err() != nil || i != n {
		t.Fatalf("%d rows, %v", i, rows.Err())
	}
}
