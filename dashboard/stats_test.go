package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/history"
)

// earlier is a store whose clock is behind.
type earlier struct {
	broker.Broker
	at time.Time
}

func (e *earlier) Enqueue(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
	r.Now = e.at
	return e.Broker.Enqueue(ctx, r)
}

func (e *earlier) Claim(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
	r.Now = e.at
	return e.Broker.Claim(ctx, r)
}

func (e *earlier) Settle(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
	r.Now = e.at
	return e.Broker.Settle(ctx, r)
}

func (e *earlier) Renew(ctx context.Context, r broker.RenewRequest) (broker.Renewed, error) {
	r.Now = e.at
	return e.Broker.Renew(ctx, r)
}

func (e *earlier) Mark(ctx context.Context, r broker.MarkRequest) (broker.Marked, error) {
	r.Now = e.at
	return e.Broker.Mark(ctx, r)
}

func (e *earlier) Queues(ctx context.Context, r broker.QueuesRequest) (broker.QueuesReply, error) {
	r.Now = e.at
	return e.Broker.Queues(ctx, r)
}

// pastWork gives the queue mail a history of a length, up to now. Each minute about
// ten jobs arrive; of ten, eight complete, one fails and one dies. In the middle the
// queue is paused for a quarter of an hour; soon after, a new program version starts.
func (s *site) pastWork(long time.Duration) {
	s.t.Helper()
	now := time.Now()
	past := &earlier{s.store, now.Add(-long)}
	old := &site{t: s.t}
	old.store = past
	ok := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	keeper := history.NewKeeper(past, "keeper")
	renew := func(worker, program string) {
		_, err := past.Renew(s.t.Context(), broker.RenewRequest{Worker: worker, Queues: []string{"mail"}, Lease: 2 * time.Minute, Register: true,
			Info: broker.WorkerInfo{ID: worker, Host: "app-7.example", Program: program, Concurrency: 10, Queues: []string{"mail"},
				StartedAt: past.at}})
		ok(err)
	}
	retire := func(worker string) {
		_, err := past.Broker.Retire(s.t.Context(), broker.RetireRequest{Now: past.at, Worker: worker, Queues: []string{"mail"}})
		ok(err)
	}
	pause := func(yes bool) {
		_, err := s.store.Policy(s.t.Context(), broker.PolicyRequest{Queue: "mail", Paused: &yes})
		ok(err)
	}
	middle, n := now.Add(-long/2), 0
	for ; past.at.Before(now); past.at = past.at.Add(time.Minute) {
		worker, program := "old", "shop v1.4.1"
		if past.at.After(middle.Add(20 * time.Minute)) {
			worker, program = "new", "shop v1.4.2"
			retire("old")
		}
		renew(worker, program)
		pause(past.at.After(middle) && past.at.Before(middle.Add(15*time.Minute)))
		minute := int(past.at.Sub(now.Add(-long)) / time.Minute)
		for range 8 + minute*7%5 {
			n++
			old.enqueue("mail", fmt.Sprintf("past-%05d", n), "email:welcome")
		}
		held := old.claim(worker, "mail", 20)
		old.number++
		req := broker.SettleRequest{Worker: worker, Number: old.number}
		for i := range held {
			o := broker.Complete(nil)
			switch i % 10 {
			case 8:
				o = broker.Retry(time.Hour, broker.Failure{At: past.at, Message: "try later"})
			case 9:
				o = broker.Die(broker.ReasonRetries, broker.Failure{At: past.at, Message: "no route to host"})
			}
			req.Items = append(req.Items, broker.Settlement{Job: &held[i], Outcome: o,
				Waited: time.Duration(200+15*max(minute%30, 30-minute%30)) * time.Millisecond, Ran: 120 * time.Millisecond})
		}
		if len(held) > 0 {
			_, err := past.Settle(s.t.Context(), req)
			ok(err)
			var l inspect.Latency
			for i := range req.Items { // some take longer
				l.WaitTimes.Add(req.Items[i].Waited * time.Duration(1+i*i/30))
				l.RunTimes.Add(req.Items[i].Ran * time.Duration(1+i*i/30))
			}
			_, err = history.Post(s.t.Context(), past, worker, map[string]history.Latency{"mail": l})
			ok(err)
		}
		ok(keeper.Turn(s.t.Context()))
	}
	pause(false)
	retire("new")
}

func TestStats_TellsWhatQueuesDidRightAfterARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Interval: time.Hour})
	s.pastWork(2 * time.Hour)
	s.enqueue("idle", "a", "x")
	var all, one statsReply
	decode := func(path string, reply *statsReply) {
		t.Helper()
		if err := json.Unmarshal([]byte(s.get(200, path)), reply); err != nil {
			t.Fatal(err)
		}
	}
	decode("stats?span=1h", &all)
	decode("stats?queue=mail&span=24h", &one)
	if len(all.Queues) != 2 || len(one.Queues) != 1 || one.Queues[0].Queue != "mail" {
		t.Fatalf("the queues are %+v, and of one %+v", all.Queues, one.Queues)
	}
	if w := one.Queues[0].Lately; w == nil || w.Completed < 0.1 || w.Completed > 0.2 || w.Failures <= 0 || w.MeanRun < 0.1 ||
		w.MeanRun > 0.14 {
		t.Errorf("lately the queue did %+v, want 8 jobs a minute that ran for 0.12 seconds", w)
	} else if run := w.Run; run == nil || w.Wait == nil || run.P50 < 0.1 || run.P50 > 0.4 || run.P99 < 0.4 ||
		run.P95 < run.P50 || run.P95 > run.P99 {
		t.Errorf("lately runs took %+v and waits %+v, want half of the runs under 0.4 seconds and some of more than 0.4", run, w.Wait)
	}
	for name, h := range map[string]*past{"of all queues": all.History, "of one": one.History} {
		if h == nil || len(h.Periods) < 20 {
			t.Fatalf("the history %s is %+v", name, h)
		}
		var came, pauses int64
		for n, p := range h.Periods {
			came += p.Totals.Enqueued
			if p.Paused {
				pauses++
			}
			if n > 0 && !p.Until.After(h.Periods[n-1].Until) {
				t.Errorf("%s: period %d ends at %v, after %v", name, n, p.Until, h.Periods[n-1].Until)
			}
		}
		if want := int64(560); came < want {
			t.Errorf("%s: %d jobs came, want %d or more", name, came, want)
		}
		if h == one.History && (pauses < 2 || pauses > 5) {
			t.Errorf("%s: %d periods of five minutes end in a pause of a quarter of an hour", name, pauses)
		}
	}
	if d := one.History.Deploys; len(d) != 2 || d[0].Program != "shop v1.4.1" || d[1].Program != "shop v1.4.2" || !d[1].At.After(d[0].At) {
		t.Errorf("the deploys are %+v, want one of each version", d)
	}
	page := s.get(200, "queue?name=mail&span=7d")
	has(t, page, `data-from="stats?queue=mail&amp;span=7d"`, `<a href="queue?name=mail&amp;span=7d#charts" aria-current="true">7d</a>`,
		"120ms")
	if _, after, _ := strings.Cut(s.get(200, ""), "Completed / s</dt><dd>"); !strings.HasPrefix(after, "0.1") {
		t.Errorf("the first page after a restart does not know the rate: %.60s", after)
	}
	s.get(404, "stats?queue=typo")
	s.get(400, "stats?span=2h")
}

// A history is read once for all pages that show it.
func TestStats_HistoriesAreShared(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Interval: time.Hour})
	s.enqueue("mail", "a", "email")
	s.get(200, "stats?queue=mail&span=90d")
	s.faults.Set(nil)
	for range 10 {
		s.get(200, "stats?queue=mail&span=90d")
	}
	if n := s.faults.Calls(""); n > 0 {
		t.Errorf("ten more pages made %d calls, want none", n)
	}
	for n := range maxPasts + 5 { // anybody may request any queue
		s.get(404, fmt.Sprintf("stats?queue=q%d&span=1h", n))
	}
	s.handler.pasts.mu.Lock()
	defer s.handler.pasts.mu.Unlock()
	if n := len(s.handler.pasts.all); n > 1 {
		t.Errorf("%d histories are remembered, of queues that do not exist", n)
	}
}

type queueInfo = inspect.QueueInfo

// queueOf describes a queue now and some minutes ago.
type queueOf struct {
	now  queueInfo
	base base
}

func TestStats_TheBacklogIsGoneWhenItShrinks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	queue := func(name string, pending, came, went int64) (q queueOf) {
		q.now.Name, q.now.Now, q.now.AsOf = name, now, now
		q.now.Counts = map[broker.State]int64{broker.StatePending: pending}
		q.now.Totals = broker.Totals{Enqueued: 1000 + came, Completed: 500 + went}
		q.base = base{at: now.Add(-100 * time.Second), totals: broker.Totals{Enqueued: 1000, Completed: 500}}
		return q
	}
	for _, c := range []struct {
		queues []queueOf
		want   string
	}{
		{[]queueOf{queue("a", 300, 100, 300)}, "about 2m30s"},
		{[]queueOf{queue("a", 300, 300, 100)}, "it grows"},
		{[]queueOf{queue("a", 0, 300, 100)}, "–"},
		{[]queueOf{queue("a", 300, 100, 300), queue("b", 100, 0, 200)}, "about 1m40s"},
	} {
		m := pacer{bases: make(map[string]base)}
		var infos []queueInfo
		for _, q := range c.queues {
			m.bases[q.now.Name] = q.base
			infos = append(infos, q.now)
		}
		by, total := m.paces(infos)
		if total.GoneIn() != c.want || len(infos) == 1 && by["a"].GoneIn() != c.want {
			t.Errorf("%+v: gone in %q, and the queue a in %q; want %q", c.queues, total.GoneIn(), by["a"].GoneIn(), c.want)
		}
	}
	q := queue("one of too many", 300, 100, 300)
	m := pacer{whole: &q.base}
	if by, total := m.paces([]queueInfo{q.now}); total.GoneIn() != "about 2m30s" || total.Lately.Completed != 300 || by[q.now.Name].Even {
		t.Errorf("where too many queues have a history, by that of all the jobs are gone in %q, after %d that completed", total.GoneIn(),
			total.Lately.Completed)
	}
}
