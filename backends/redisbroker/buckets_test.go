package redisbroker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// drawnAt returns a job whose ID is a ULID of that time.
func drawnAt(queue string, at time.Time) broker.NewJob {
	return job(queue, ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String())
}

// filled returns how many jobs each bucket of a queue holds, without empty ones.
func filled(t *testing.T, c *redis.Client, q *queue) map[string]int {
	t.Helper()
	held := make(map[string]int)
	for _, key := range q.keys("b*") {
		n, err := entries(c, key, "hash")
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			held[key] = n
		}
	}
	return held
}

// Jobs with IDs of about the same time are in one bucket, however they are enqueued, and
// settles leave no body there. A batch may have jobs of many buckets.
func TestBuckets_JobsThatComeTogetherAreInOneBucket(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	q := b.queue("q")
	begun := time.UnixMilli(1_800_000_000_000 / 1024 * 1024) // a second of ULIDs
	var batch []broker.NewJob
	for i := range 90 { // IDs of three times: two in one second but in different buckets, and one a second later
		batch = append(batch, drawnAt("q", begun.Add([]time.Duration{0, 130 * time.Millisecond, 1024 * time.Millisecond}[i/10%3])))
	}
	number := int64(0)
	slots := make(map[string]bool)
	for i := range batch {
		slots[q.bucket(slotOf(batch[i].ID))] = true
	}
	for name, send := range map[string]func([]broker.NewJob){
		"a batch": func(jobs []broker.NewJob) { accept(t, b, jobs) },
		"one by one": func(jobs []broker.NewJob) {
			for i := range jobs {
				accept(t, b, jobs[i:i+1])
			}
		},
		"with a key": func(jobs []broker.NewJob) {
			for i := range jobs {
				jobs[i].Body.Key = "key"
			}
			accept(t, b, jobs)
		},
	} {
		before := filled(t, c, q)
		send(slices.Clone(batch))
		held := filled(t, c, q)
		for key := range slots {
			if n := held[key] - before[key]; n != 30 {
				t.Errorf("%s: the bucket %s of a slice holds %d jobs, want 30", name, key, n)
			}
		}
		var order []string
		for {
			got := claimAt(t, b, time.Time{}, "w", 25, "q")
			if len(got.Jobs) == 0 {
				break
			}
			items := make([]broker.Settlement, len(got.Jobs))
			for i := range got.Jobs {
				items[i] = broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)}
				if j := &got.Jobs[i]; string(j.Body.Payload) != "payload of "+j.ID {
					t.Errorf("%s: %s has the payload %q", name, j.ID, j.Body.Payload)
				}
				order = append(order, got.Jobs[i].ID)
			}
			number++
			if _, err := b.Settle(t.Context(), broker.SettleRequest{Worker: "w", Number: number, Items: items}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.EqualFunc(order, batch, func(id string, j broker.NewJob) bool { return id == j.ID }) {
			t.Errorf("%s: %d jobs came out, or in another order than the %d that went in", name, len(order), len(batch))
		}
		if left := filled(t, c, q); len(left) > 0 {
			t.Errorf("%s: after the last settle the buckets hold %v", name, left)
		}
	}
}

// In a batch over several buckets each job is still accepted or refused on its own.
func TestBuckets_ABatchOverManyBucketsRefusesWhatIsThere(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	var jobs []broker.NewJob
	for i := range 20 { // each in a bucket of its own
		jobs = append(jobs, job("q", drawnAt("q", at(0).Add(time.Duration(i)*150*time.Millisecond)).ID))
	}
	send := func(refused func(i int) bool, batch ...broker.NewJob) {
		receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: at(0), Jobs: batch})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range receipts {
			if (r.Err != nil) != refused(i) {
				t.Errorf("job %d of the batch, %s: %v, want a refusal: %t", i, r.ID, r.Err, refused(i))
			}
		}
	}
	again := jobs[3]
	again.Body.Payload = []byte("of the repeat")
	enqueue(t, b, job("q", "first")) // makes the queue
	send(func(i int) bool { return i == 2 }, jobs[3], jobs[17], again)
	send(func(i int) bool { return i == 3 || i == 17 || i >= 20 }, append(slices.Clone(jobs), jobs[5], jobs[18])...)
	register(t, b, "w", "q")
	got := claimAt(t, b, at(0), "w", 99, "q").Jobs
	if len(got) != 21 {
		t.Fatalf("claimed %d jobs, want 21", len(got))
	}
	for i := range got {
		if string(got[i].Body.Payload) != "payload of "+got[i].ID {
			t.Errorf("%s has the payload %q", got[i].ID, got[i].Body.Payload)
		}
	}
}

// A call that names all its jobs gets only the buckets that these are in, since each
// key costs the server as much as a job.
func TestBuckets_ACallIsGivenTheBucketsItNeeds(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	now := time.Now()
	one := []broker.NewJob{drawnAt("q", now), drawnAt("q", now)}
	two := []broker.NewJob{drawnAt("q", now), drawnAt("q", now.Add(10*time.Second))}
	buckets := func(s *step) (n int) {
		for _, arg := range b.newCall(s).args {
			if key, ok := arg.(*piece); ok && slices.Contains(b.queue("q").keys("b*"), string(*key)) {
				n++
			}
		}
		return n
	}
	sent := func(jobs []broker.NewJob, named bool) *step {
		e := &enqueueBatch{queue: b.queue("q"), recent: true, texts: newArena()}
		for i := range jobs {
			if named {
				jobs[i].Body.Key = "key"
			}
			e.add(i, &jobs[i])
		}
		return e.step(nowArg(at(0)))
	}
	settled := func(jobs []broker.NewJob) *step {
		req := broker.SettleRequest{Worker: "w"}
		for i := range jobs {
			req.Items = append(req.Items, broker.Settlement{Job: &broker.Job{ID: jobs[i].ID, Queue: "q"}, Outcome: broker.Complete(nil)})
		}
		return b.settleBatches(&req)[0].step
	}
	for _, test := range []struct {
		name string
		step *step
		want int
	}{
		{"one job", sent(one[:1], false), 1},
		{"two of one slice", sent(one, false), 1},
		{"two of two slices", sent(two, false), 2},
		{"two of one slice, with keys", sent(one, true), 1},
		{"two of two slices, with keys", sent(two, true), defaultBuckets},
		{"a settle of one slice", settled(one), 1},
		{"a settle of two slices", settled(two), defaultBuckets},
	} {
		if got := buckets(test.step); got != test.want {
			t.Errorf("%s: the call has %d buckets among its keys, want %d", test.name, got, test.want)
		}
	}
}

// Programs may be configured with other numbers of buckets than a queue has.
func TestBuckets_MixedBucketsAreNoticed(t *testing.T) {
	t.Parallel()
	c := client(t)
	prefix := testenv.Name(t)
	maker := openAs(t, c, Config{Prefix: prefix, Buckets: 4})
	enqueue(t, maker, job("q", "first"))
	register(t, maker, "w", "q")
	want := 1
	for _, other := range []int{1, 7, maxBuckets} {
		b := openAs(t, c, Config{Prefix: prefix, Buckets: other})
		send := func(b *Broker, jobs int) {
			var batch []broker.NewJob
			for range jobs {
				batch = append(batch, drawnAt("q", at(want)))
				want++
			}
			accept(t, b, batch)
		}
		for n := range 6 {
			send(b, 1+n%2*2)
		}
		later := openAs(t, c, Config{Prefix: prefix, Buckets: other})
		send(later, 3) // a batch as its first call
	}
	if found := examinetest.Examine(t, maker, broker.ExamineRequest{Now: at(0)}); len(found) > 0 {
		t.Errorf("an examination finds %+v", found)
	}
	fresh := openAs(t, c, Config{Prefix: prefix, Buckets: 7})
	got := claimAt(t, fresh, at(0), "w", 99, "q")
	if len(got.Jobs) != want {
		t.Errorf("a broker that assumed 7 buckets claimed %d jobs of a queue with 4, want %d", len(got.Jobs), want)
	}
}

// A program that assumes another number of buckets does not create a queue of which only
// the key p is left: other programs would continue to store by that key.
func TestBuckets_AQueueIsNotMadeBesideWhatIsLeftOfAnother(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	if err := c.Set(t.Context(), b.queue("q").key("p"), 2, 0).Err(); err != nil {
		t.Fatal(err)
	}
	other := openAs(t, c, Config{Prefix: b.config.Prefix, Buckets: 7})
	receipts, err := other.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job("q", "a")}})
	if err == nil {
		err = receipts[0].Err
	}
	if err == nil || !strings.Contains(err.Error(), "without a queue's record") {
		t.Errorf("Enqueue: %v, want a refusal that says that keys are there without a record", err)
	}
}

// One examination repairs a job that is in a wrong bucket, before or behind the right one,
// and without a ready entry, which a claim drops if it does not find the body.
func TestBuckets_AJobInAWrongBucketWithoutAPlaceIsRepairedAtOnce(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	q, ctx := b.queue("q"), t.Context()
	early, late := job("q", "given"), drawnAt("q", at(0))
	enqueue(t, b, early, late)
	for id, wrong := range map[string]int{"given": 5, late.ID: 0} {
		right, wrong := q.bucket(slotOf(id)), q.bucket(wrong)
		if right == wrong {
			t.Fatalf("%s is in %s", id, right)
		}
		if err := errors.Join(c.HSet(ctx, wrong, id, c.HGet(ctx, right, id).Val()).Err(), c.HDel(ctx, right, id).Err()); err != nil {
			t.Fatal(err)
		}
	}
	register(t, b, "w", "q")
	if got := claimAt(t, b, at(0), "w", 9, "q").Jobs; len(got) != 0 {
		t.Fatalf("claimed %d jobs whose bodies are elsewhere", len(got))
	}
	examinetest.Examine(t, b, broker.ExamineRequest{Now: at(1), Fix: true})
	if again := examinetest.Examine(t, b, broker.ExamineRequest{Now: at(1)}); len(again) > 0 {
		t.Errorf("after the repair: %+v", again)
	}
	if got := claimAt(t, b, at(1), "w", 9, "q").Jobs; len(got) != 2 {
		t.Errorf("claimed %d jobs after the repair, want 2", len(got))
	}
}

// If a damaged record does not say how many buckets there are, nothing is stored, and
// nothing claimed.
func TestBuckets_ARecordWithoutANumberOfBucketsIsRefused(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	enqueue(t, b, job("q", "a"))
	register(t, b, "w", "q")
	if err := c.HDel(t.Context(), b.queue("q").key("m"), "B").Err(); err != nil {
		t.Fatal(err)
	}
	later := job("q", "b")
	later.Delay = time.Hour
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: at(0), Jobs: []broker.NewJob{later}})
	if err == nil {
		err = receipts[0].Err
	}
	if !errors.Is(err, broker.ErrMalformed) || broker.MayHaveApplied(err) {
		t.Errorf("Enqueue: %v, want ErrMalformed, and certainty that nothing was stored", err)
	}
	got, err := b.Claim(t.Context(), broker.ClaimRequest{Now: at(0), Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 9}}, Max: 9})
	if err == nil || len(got.Jobs) > 0 {
		t.Errorf("Claim: %d jobs, %v; want an error", len(got.Jobs), err)
	}
}

// Most buckets of most queues are empty, so an examination looks at many of them in one
// step.
func TestBuckets_AnExaminationOfAShortQueueTakesFewSteps(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	enqueue(t, b, job("q", "a"), job("q", "b"), job("q", "c"))
	steps, found := 0, 0
	for cursor := ""; steps == 0 || cursor != ""; steps++ {
		got, err := b.Examine(t.Context(), broker.ExamineRequest{Cursor: cursor, Queue: "q", Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if got.Part == "jobs" {
			found += got.Records
		}
		cursor = got.Cursor
	}
	if most := len(examinePlan.Queue) + 3; steps > most || found != 3 {
		t.Errorf("%d steps, and %d jobs were looked at; want at most %d, and 3", steps, found, most)
	}
}
