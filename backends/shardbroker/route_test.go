package shardbroker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// named makes a broker over shards in memory with these names.
func named(t *testing.T, names ...string) *Broker {
	t.Helper()
	var shards []Shard
	for _, name := range names {
		shards = append(shards, Shard{Name: name, Broker: membroker.New()})
	}
	return opened(t, shards...)
}

func opened(t *testing.T, shards ...Shard) *Broker {
	t.Helper()
	b, err := New(shards...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// What is stored is found by these: another answer loses jobs.
func TestRoutes_NeverChange(t *testing.T) {
	t.Parallel()
	b := named(t, "north", "east", "south", "west")
	got := ""
	for _, j := range []broker.NewJob{
		{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "01J9ZQ3V5T8W2X4Y6Z7A8B9C0D"},
		{ID: "a", Body: broker.Body{Unique: broker.Unique{Key: "u"}}}, {ID: "b", Body: broker.Body{Unique: broker.Unique{Key: "u"}}},
		{ID: "a", Body: broker.Body{Key: "k"}}, {ID: "b", Body: broker.Body{Key: "k", Unique: broker.Unique{Key: "u"}}},
		{ID: "é"}, {ID: ""},
	} {
		got += b.routes.of(label(j.ID, &j.Body))[0].Name + " "
	}
	if want := golden; got != want {
		t.Errorf("jobs go to %s\nwant %s", got, want)
	}
}

const golden = "south east west south east east south south west west "

func TestRoutes_SpreadEvenlyAndMoveOnlyToANewShard(t *testing.T) {
	t.Parallel()
	before, after := named(t, "a", "b", "c"), named(t, "d", "c", "b", "a")
	counts := make(map[string]int)
	const n = 20_000
	for i := range n {
		l := label(fmt.Sprint("job ", i), &broker.Body{})
		was, is := before.routes.of(l)[0].Name, after.routes.of(l)[0].Name
		if is != was && is != "d" {
			t.Fatalf("job %d moved from %s to %s, although only d is new", i, was, is)
		}
		counts[is]++
	}
	for name, got := range counts {
		if got < n/4*9/10 || got > n/4*11/10 {
			t.Errorf("shard %s has %d of %d jobs, want about a quarter", name, got, n)
		}
	}
}

func TestNew_RefusesShardsThatDoNotFit(t *testing.T) {
	t.Parallel()
	b, c, d, at := membroker.New(), membroker.New(), membroker.New(), time.Unix(1_800_000_000, 0)
	for name, shards := range map[string][]Shard{
		"none":           {},
		"a store twice":  {{Name: "a", Broker: b}, {Name: "b", Broker: b}},
		"a name twice":   {{Name: "a", Broker: b}, {Name: "a", Broker: c}},
		"no name":        {{Broker: b}},
		"no broker":      {{Name: "a"}},
		"a nil pointer":  {{Name: "a", Broker: (*membroker.Broker)(nil)}},
		"two times":      {{Name: "a", Broker: b}, {Name: "b", Broker: c, From: at}, {Name: "c", Broker: d, From: at.Add(1)}},
		"comes and goes": {{Name: "a", Broker: b}, {Name: "b", Broker: c, From: at, Until: at}},
		"no marks":       {{Name: "a", Broker: b, NoMarks: true}, {Name: "b", Broker: c, From: at}},
		"none before":    {{Name: "a", Broker: b, From: at}},
		"none after":     {{Name: "a", Broker: b, Until: at}},
	} {
		if _, err := New(shards...); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%s: error %v, want ErrInvalid", name, err)
		}
	}
}

// A change is over, and others follow: jobs go to the shards as if they had always been there, and marks stay where they
// were before the first one.
func TestRoutes_MarksStayInEveryLaterChange(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	of := func(shards ...Shard) *Broker {
		for i := range shards {
			shards[i].Broker = membroker.New()
		}
		return opened(t, shards...)
	}
	first, even := of(Shard{Name: "a"}, Shard{Name: "b"}), of(Shard{Name: "a"}, Shard{Name: "b"}, Shard{Name: "c"})
	joined := Shard{Name: "c", NoMarks: true}
	leaves := joined
	leaves.Until = at
	for name, b := range map[string]*Broker{
		"over":        of(Shard{Name: "a"}, Shard{Name: "b"}, joined),
		"another":     of(Shard{Name: "a"}, Shard{Name: "b"}, joined, Shard{Name: "d", From: at}),
		"taken back":  of(Shard{Name: "a"}, Shard{Name: "b"}, leaves),
		"an old goes": of(Shard{Name: "a"}, Shard{Name: "b", Until: at}, joined),
	} {
		for i := range 200 {
			l := hash(fmt.Sprint("label ", i))
			if is, was := highest(b.routes.fixed, l).Name, highest(first.routes.fixed, l).Name; is != was {
				t.Errorf("%s: a mark moved from shard %s to %s", name, was, is)
			}
			shards := b.routes.of(l)
			if was := highest(even.routes.now, l).Name; shards[len(shards)-1].Name != was {
				t.Errorf("%s: before the next change a job belongs to shard %s, want %s", name, shards[len(shards)-1].Name, was)
			}
		}
	}
}

func TestLimits_AreThoseThatAllShardsHave(t *testing.T) {
	t.Parallel()
	l := limitsOf([]*shard{{Shard: Shard{Broker: limited{limits: broker.Limits{InProcess: true, MaxPayload: 10}}}},
		{Shard: Shard{Broker: limited{limits: broker.Limits{NoPriority: true, NoUnique: true, NoWait: true, NoWatch: true, NoMark: true,
			NoExamine: true,
			NoMove:    true, NoFlow: true, TimeStep: time.Second}}}}})
	want := broker.Limits{NoPriority: true, NoUnique: true, NoWait: true, NoWatch: true, NoMark: true, NoExamine: true, NoMove: true,
		NoFlow: true, MaxPayload: 10, TimeStep: time.Second}
	if l != want {
		t.Errorf("limits %+v, want %+v", l, want)
	}
}

type limited struct {
	limits broker.Limits
	broker.Broker
}

func (l limited) Limits() broker.Limits { return l.limits }
