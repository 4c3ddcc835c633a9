package membroker

import (
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestTheIndexFindsWhatIsInItAndNothingElse(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	x, stored := newIndex(maphash.MakeSeed()), make(map[string]*job)
	for phase := range 20 {
		adding := 1 + 8*(1-phase%2) // of ten: grows, then shrinks
		for range 3000 {
			id := strconv.Itoa(random.IntN(4000))
			j := stored[id]
			if x.get(id) != j {
				t.Fatalf("of %d jobs, that with ID %s is %v, found is %v", len(stored), id, j, x.get(id))
			}
			switch add := random.IntN(10) < adding; {
			case add && j == nil:
				stored[id] = &job{id: id, hash: hashOf(x.seed, id)}
				x.add(stored[id])
			case !add && j != nil:
				delete(stored, id)
				x.remove(j)
			}
		}
		all := slices.Sorted(x.ids())
		if x.len() != len(stored) || len(all) != len(stored) || len(slices.Compact(all)) != len(stored) {
			t.Fatalf("%d jobs are stored, the index counts %d and lists %d", len(stored), x.len(), len(all))
		}
	}
}

// Half of a hash may be alike, and so may all of it that says where an entry
// belongs; the end of the table goes on at its beginning.
func TestTheIndexTellsJobsOfOneHashApart(t *testing.T) {
	t.Parallel()
	x := newIndex(maphash.MakeSeed())
	last := uint32(len(x.table)-1) << 28
	var jobs []*job
	for i := range 5 {
		j := &job{id: strconv.Itoa(i), hash: last}
		jobs = append(jobs, j)
		x.add(j)
	}
	for gone := range jobs {
		for i, j := range jobs {
			if found := x.find(j.id, last); i < gone && found != nil || i >= gone && found != j {
				t.Errorf("with %d of %d jobs gone, that with ID %s is found as %v", gone, len(jobs), j.id, found)
			}
		}
		x.remove(jobs[gone])
	}
}

func TestBodiesAreSharedOnlyIfNothingTellsThemApart(t *testing.T) {
	t.Parallel()
	plain := broker.Body{Type: "t", Priority: broker.PriorityNormal}
	b := bodies{seed: maphash.MakeSeed()}
	if first, second := b.of(&plain), b.of(&plain); first != second {
		t.Error("two jobs of equal bodies do not share one")
	}
	fields := reflect.VisibleFields(reflect.TypeFor[broker.Body]())
	for _, f := range fields {
		if !f.IsExported() || f.Name == "Payload" || f.Name == "Headers" {
			continue
		}
		other := plain
		v := reflect.ValueOf(&other).Elem().FieldByIndex(f.Index)
		differ(t, v, func() {
			got := b.of(&other)
			if got == b.of(&plain) || !reflect.DeepEqual(*got, other) {
				t.Errorf("a body that differs in %s is stored as %+v, want %+v", f.Name, *got, other)
			}
		})
	}
}

// differ calls check with each part of v changed.
func differ(t *testing.T, v reflect.Value, check func()) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Hour))
	case reflect.Uint8:
		v.SetUint(3)
	case reflect.Struct:
		if v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				differ(t, v.Field(i), check)
			}
			return
		}
		v.Set(reflect.ValueOf(time.Unix(1_800_000_000, 0).UTC()))
	default:
		t.Fatalf("a body has a field of kind %v, which this test does not know", v.Kind())
	}
	check()
	v.Set(old)
}

// What jobs occupied is given back: neither those that went one by one nor those
// that were a great many at once leave anything behind. Not parallel: it
// measures the memory of the process.
func TestMemoryStaysFlat(t *testing.T) {
	const batch, depth, lives = 1000, 100_000, 200_000
	b := New()
	defer b.Close()
	register(t, b, "w", "q")
	next, number := 0, int64(0)
	put := func() {
		news := make([]broker.NewJob, batch)
		for i := range news {
			next++
			news[i] = newTestJob("q", strconv.Itoa(next))
			news[i].Body.Payload = make([]byte, 200)
		}
		enqueue(t, b, news...)
	}
	take := func() {
		claimed := claim(t, b, "w", batch, "q")
		jobs := make([]*broker.Job, len(claimed))
		for i := range claimed {
			jobs[i] = &claimed[i]
		}
		number++
		settleAll(t, b, number, broker.Complete(nil), jobs...)
	}
	held := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	put()
	take()
	before := held()
	for range lives / batch {
		put()
		take()
	}
	if more := held() - before; more > 200_000 {
		t.Errorf("after %d jobs came and went, %d bytes more are in use", lives, more)
	}
	for range depth / batch {
		put()
	}
	full := held() - before
	for range depth / batch {
		take()
	}
	if more := held() - before; more > 200_000 {
		t.Errorf("after %d pending jobs went, %d bytes more are in use than before they came", depth, more)
	}
	if each := full / depth; each > 600 {
		t.Errorf("a pending job with a payload of 200 bytes occupies %d bytes", each)
	} else {
		t.Logf("a pending job with a payload of 200 bytes occupies %d bytes", each)
	}
}
