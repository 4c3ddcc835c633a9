package redisbroker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// The jobs of a key are claimed in their order, however its entries are cut into pieces: by jobs that come, are claimed, go back to the
// front, and are deleted. At the end no piece is left.
func TestKeys_EntriesOfAKeyStayInOrderOverTheirPieces(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			c := client(t)
			p := &pieces{T: t, b: open(t, c), random: rand.New(rand.NewPCG(seed, 1)), pending: map[string][]string{},
				epochs: map[string]int64{}}
			register(t, p.b, "w", "q")
			for round := range 12 {
				for range 20 {
					switch p.random.IntN(5) {
					case 0, 1:
						p.enqueue()
					case 2, 3:
						p.claim(1 + p.random.IntN(40))
					case 4:
						p.remove(4)
					}
				}
				p.remove(2)
				p.examine()
				for p.left() > 0 {
					if round%2 == 0 {
						p.remove(1)
					} else {
						p.release = false
						p.claim(1000)
					}
				}
				for _, name := range []string{"ks", "kl", "i"} {
					fields := c.HLen(t.Context(), p.b.queue("q").key(name)).Val() + c.ZCard(t.Context(), p.b.queue("q").key(name)).Val()
					if want := int64(len(name) - 1); fields != want {
						t.Fatalf("when no job is left, %s has %d members, want %d: the guard, if it is a hash", name, fields, want)
					}
				}
			}
		})
	}
}

// pieces is a queue and what its keys should have pending.
type pieces struct {
	*testing.T
	b       *Broker
	random  *rand.Rand
	pending map[string][]string // by key and priority, in order
	epochs  map[string]int64    // of jobs that were released
	made    int
	number  int64
	release bool // whether the next claim's jobs go back
}

func nameOf(b *broker.Body) string { return fmt.Sprint(b.Key, " ", b.Priority) }

func (p *pieces) enqueue() {
	var jobs []broker.NewJob
	for range 1 + p.random.IntN(60) {
		p.made++
		j := job("q", fmt.Sprintf("job-%026d", p.made))
		j.Body.Key = fmt.Sprint("key", p.random.IntN(3))
		if p.random.IntN(4) == 0 {
			j.Body.Priority = broker.PriorityLow
		}
		jobs = append(jobs, j)
		name := nameOf(&j.Body)
		p.pending[name] = append(p.pending[name], j.ID)
	}
	enqueue(p.T, p.b, jobs...)
}

// claim claims jobs, and completes or releases them in turn.
func (p *pieces) claim(n int) {
	p.Helper()
	got := claimAt(p.T, p.b, at(0), "w", n, "q").Jobs
	if len(got) < min(n, p.left()) {
		p.Fatalf("a claim of %d of %d pending jobs got %d", n, p.left(), len(got))
	}
	outcome := broker.Complete(nil)
	if p.release {
		outcome = broker.Release()
	}
	var items []broker.Settlement
	back := map[string][]string{}
	for i := range got {
		key := nameOf(&got[i].Body)
		want := p.pending[key]
		if len(want) == 0 || want[0] != got[i].ID {
			p.Fatalf("claimed %s of %s, want the first of %q", got[i].ID, key, want)
		}
		p.pending[key] = want[1:]
		back[key] = append(back[key], got[i].ID)
		items = append(items, broker.Settlement{Job: &got[i], Outcome: outcome})
	}
	if len(items) > 0 {
		p.number++
		if _, err := p.b.Settle(p.Context(), broker.SettleRequest{Now: at(0), Worker: "w", Number: p.number, Items: items}); err != nil {
			p.Fatal(err)
		}
	}
	if p.release {
		for key, ids := range back {
			p.pending[key] = append(ids, p.pending[key]...)
			for _, id := range ids {
				p.epochs[id]++
			}
		}
	}
	p.release = !p.release
}

// remove deletes one in some of the pending jobs, or all but the first of a key.
func (p *pieces) remove(of int) {
	var refs []broker.Ref
	for name, ids := range p.pending {
		var left []string
		all := p.random.IntN(3) == 0
		for i, id := range ids {
			if p.random.IntN(of) > 0 && !(all && i >= 5) {
				left = append(left, id)
				continue
			}
			refs = append(refs, broker.Ref{Queue: "q", ID: id, Epoch: p.epochs[id]})
		}
		p.pending[name] = left
	}
	for part := range slices.Chunk(refs, 100) {
		results, err := p.b.Operate(p.Context(), broker.Operation{Kind: broker.OpDelete, Refs: part, Now: at(0)})
		if err != nil {
			p.Fatal(err)
		}
		for i, r := range results {
			if r.Err != nil {
				p.Fatalf("delete of %s: %v", part[i].ID, r.Err)
			}
		}
	}
}

func (p *pieces) left() int {
	n := 0
	for _, ids := range p.pending {
		n += len(ids)
	}
	return n
}

func (p *pieces) examine() {
	p.Helper()
	if found := examinetest.Examine(p.T, p.b, broker.ExamineRequest{Now: at(0), Queue: "q"}); len(found) > 0 {
		p.Fatalf("examination found %v", found)
	}
}

// Operators may delete nearly all of a key's many jobs: then no empty pieces are left in front, and claims pass those between.
func TestKeys_ManyDeletedJobsOfAKey(t *testing.T) {
	t.Parallel()
	const n = 16100 // with long IDs, two in a piece: more pieces than Lua passes to a command
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	var jobs []broker.NewJob
	var refs []broker.Ref
	for i := range n {
		j := job("q", fmt.Sprintf("%0255d", i))
		j.Body.Key = "tenant"
		jobs, refs = append(jobs, j), append(refs, broker.Ref{Queue: "q", ID: j.ID, Epoch: broker.AnyEpoch})
	}
	for part := range slices.Chunk(jobs, 1000) {
		enqueue(t, b, part...)
	}
	remove := func(refs []broker.Ref) {
		t.Helper()
		for part := range slices.Chunk(refs, 1000) {
			if _, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpDelete, Refs: part, Now: at(0)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove(refs[2 : n-1])
	want := []string{refs[0].ID, refs[1].ID, refs[n-1].ID}
	got, err := b.Claim(t.Context(), broker.ClaimRequest{Now: at(1), Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 10}}, Max: 10})
	if err != nil || len(got.Jobs) != len(want) {
		t.Fatalf("a claim of the jobs that are left\ngot  %d jobs, %v\nwant %d", len(got.Jobs), err, len(want))
	}
	for i, j := range got.Jobs {
		if j.ID != want[i] {
			t.Errorf("job %d\ngot  %s\nwant %s", i, j.ID, want[i])
		}
	}
}
