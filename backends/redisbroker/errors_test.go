package redisbroker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// Errors stand in blocks. In whatever order jobs die and leave, searches show those that are dead, each once, in the order of
// their death, and the examination finds nothing wrong.
func TestErrors_BlocksKeepTheirOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for name, order := range map[string]func(n int) []int{
		"in order": func(n int) []int { return slices.Sorted(slices.Values(random.Perm(n))) },
		"backwards": func(n int) []int {
			return slices.SortedFunc(slices.Values(random.Perm(n)), func(a, b int) int { return b - a })
		},
		"random": random.Perm,
	} {
		c := client(t)
		b := open(t, c)
		const n = 120
		var jobs []broker.NewJob
		for _, i := range order(n) {
			// Some errors do not fit into a block with another.
			text := fmt.Sprintf("busy %d", i) + strings.Repeat("x", []int{0, 1, 300, 2500}[i%16/5])
			jobs = append(jobs, deadOf(fmt.Sprintf("job %03d", i), at(i/2), text))
		}
		for at := 0; at < n; at += 10 {
			enqueue(t, b, jobs[at:at+10]...)
		}
		left := make([]string, n)
		for i := range left {
			left[i] = fmt.Sprintf("job %03d", i)
		}
		bytes := 2048 + len("m\x000000\x00")
		if name != "in order" {
			bytes += 2600 // a block that is split keeps its greatest error
		}
		if blocks := blocksOf(t, c, b, bytes); blocks > n/3 {
			t.Errorf("%s: %d blocks, want %d at most", name, blocks, n/3)
		}
		checkExamination(t, b)
		for len(left) > 0 {
			checkErrors(t, b, name, left)
			op := broker.Operation{Kind: broker.OpDelete}
			for _, i := range random.Perm(len(left))[:min(25, len(left))] {
				op.Refs = append(op.Refs, broker.Ref{Queue: "q", ID: left[i], Epoch: broker.AnyEpoch})
			}
			if _, err := b.Operate(t.Context(), op); err != nil {
				t.Fatal(err)
			}
			left = slices.DeleteFunc(left, func(id string) bool {
				return slices.ContainsFunc(op.Refs, func(r broker.Ref) bool { return r.ID == id })
			})
		}
		if n := blocksOf(t, c, b, bytes); n != 0 {
			t.Errorf("%s: %d blocks are left of no job", name, n)
		}
	}
}

// blocksOf returns how many blocks of errors the index of dead jobs has. One of several errors must have at most some bytes.
func blocksOf(t *testing.T, c *redis.Client, b *Broker, most int) int {
	t.Helper()
	all := blocks(t, c, b)
	for _, block := range all {
		if count := block[len(block)-1]; count > 8 || count > 1 && len(block) > most {
			t.Errorf("a block of %d errors has %d bytes, want %d at most", count, len(block), most)
		}
	}
	return len(all)
}

// checkExamination checks that a step of an examination looks at all errors of a block, and at few more than it may.
func checkExamination(t *testing.T, b *Broker) {
	t.Helper()
	req := broker.ExamineRequest{Queue: "q", Limit: 10}
	for {
		got, err := b.Examine(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if got.Part == "causes" && got.Records > 10+8 {
			t.Errorf("a step of at most 10 examined %d records", got.Records)
		}
		if req.Cursor = got.Cursor; req.Cursor == "" {
			return
		}
	}
}

// checkErrors searches for the errors of the dead jobs with these IDs, in pages of several sizes.
func checkErrors(t *testing.T, b *Broker, name string, ids []string) {
	t.Helper()
	for _, limit := range []int{1, 3, 8, 9, 50, 1000} {
		for _, newest := range []bool{false, true} {
			want, between := slices.Clone(ids), []string(nil)
			if newest {
				slices.Reverse(want)
			}
			for _, id := range want {
				if id >= "job 020" && id < "job 090" {
					between = append(between, id)
				}
			}
			if got, _ := listDead(t, b, broker.Query{ErrorText: "busy", Newest: newest}, limit); !slices.Equal(got, want) {
				t.Fatalf("%s, %d jobs, pages of %d, newest %t: %q, want %q", name, len(ids), limit, newest, got, want)
			}
			// Nearly all pages are full, at first.
			lone, calls := listDead(t, b, broker.Query{ErrorText: "busy 119", Newest: newest}, limit)
			if want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id != "job 119" }); !slices.Equal(lone, want) ||
				name == "in order" && len(ids) == 120 && calls > 150/limit+2 {
				t.Fatalf("%s, a text of one job, pages of %d, newest %t: %q in %d calls, want %q", name, limit, newest, lone, calls, want)
			}
			got, _ := listDead(t, b, broker.Query{ErrorText: "busy", Newest: newest, After: at(10), Before: at(45)}, limit)
			if !slices.Equal(got, between) {
				t.Fatalf("%s, between times, pages of %d, newest %t: %q, want %q", name, limit, newest, got, between)
			}
		}
	}
	if found := examinetest.Examine(t, b, broker.ExamineRequest{Queue: "q"}); len(found) > 0 {
		t.Fatalf("%s, %d jobs: %+v", name, len(ids), found)
	}
}
