package inspect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/history"
)

func TestInspector_LatelyIsWhatQueuesDidInFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		i, k, ctx := inspect.New(b), history.NewKeeper(b, "keeper"), t.Context()
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"q", "idle"}, Lease: 100 * time.Hour, Register: true})
		ok(err)
		id, number := 0, int64(0)
		work := func(minutes, come, go_ int) {
			t.Helper()
			for range minutes {
				var jobs []broker.NewJob
				for range come {
					id++
					jobs = append(jobs, broker.NewJob{Queue: "q", ID: time.Duration(id).String(),
						Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}})
				}
				_, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: jobs})
				ok(err)
				got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: go_}}, Max: go_})
				ok(err)
				number++
				req := broker.SettleRequest{Worker: "w", Number: number}
				for n := range got.Jobs {
					o := broker.Complete(nil)
					if n%4 == 3 {
						o = broker.Die(broker.ReasonRetries, broker.Failure{})
					}
					req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[n], Outcome: o, Waited: 2 * time.Second, Ran: time.Second})
				}
				_, err = b.Settle(ctx, req)
				ok(err)
				var l inspect.Latency
				for range req.Items {
					l.WaitTimes.Add(2 * time.Second)
					l.RunTimes.Add(time.Second)
				}
				_, err = history.Post(ctx, b, "w", map[string]inspect.Latency{"q": l})
				ok(err)
				ok(k.Turn(ctx))
				time.Sleep(time.Minute)
			}
		}
		lately := func() map[string]inspect.Work {
			t.Helper()
			queues, err := i.Queues(ctx)
			ok(err)
			all, err := i.Lately(ctx, queues)
			ok(err)
			return all
		}
		if all := lately(); len(all) > 0 {
			t.Errorf("without a history: %+v, want nothing", all)
		}
		work(20, 100, 40)
		w := lately()["q"]
		if w.Span < 4*time.Minute || w.Span > 7*time.Minute ||
			w.Runs != int64(w.Span/time.Minute-1)*40 && w.Runs != int64(w.Span/time.Minute)*40 ||
			w.FailureRate() != 0.25 || w.MeanWait() != 2*time.Second || w.MeanRun() != time.Second {
			t.Errorf("lately: %+v; want about five minutes with 40 runs each, one of four failed, after 2 s, for 1 s", w)
		}
		if l := w.Latency; l.WaitTimes.Count() != w.Waits || l.RunTimes.Count() != w.Runs ||
			l.WaitTimes.Quantile(0.95).Round(time.Second) != 2*time.Second || l.RunTimes.Quantile(0.5).Round(time.Second) != time.Second {
			t.Errorf("lately the latencies of %d waits and %d runs are known, half up to %v, and up to %v; want all %d, 2 s and 1 s",
				l.WaitTimes.Count(), l.RunTimes.Count(), l.WaitTimes.Quantile(0.5), l.RunTimes.Quantile(0.5), w.Runs)
		}
		if d, ok := w.Gone(1200); ok {
			t.Errorf("a backlog that grows is gone in %v", d)
		}
		work(20, 0, 80)
		w = lately()["q"]
		if d, ok := w.Gone(0); !ok || d != 0 {
			t.Errorf("no backlog is gone in %v, %t; want at once", d, ok)
		}
		if d, ok := w.Gone(160); w.Runs > 0 && (!ok || d < time.Minute || d > 4*time.Minute) {
			t.Errorf("160 jobs at 80 a minute are gone in %v, %t; want about 2 minutes (%+v)", d, ok, w)
		}
		work(300, 0, 1) // no backlog is left
		if w := lately()["q"]; !w.Known() || w.Totals != (broker.Totals{}) {
			t.Errorf("hours after the last job: %+v, want a queue that is known to do nothing", w)
		}
		points, err := i.History(ctx, "q", 24*time.Hour)
		ok(err)
		last := points[len(points)-1]
		if n := len(points); n < 35 || last.Totals.Completed+last.Totals.Dead != 2000 || last.Pending != 0 || !last.At.Equal(time.Now()) {
			t.Errorf("history: %d points, the last %+v; want one for each of 40 minutes, and now", n, last)
		}
		all, err := i.History(ctx, "", 24*time.Hour)
		ok(err)
		if n := len(all); n < 35 || all[n-1].Totals != last.Totals || all[n-1].Pending != 0 {
			t.Errorf("history of all queues: %d points, the last %+v; want what the one queue did", n, all[n-1])
		}
		if _, err := i.History(ctx, "unknown", time.Hour); err == nil {
			t.Error("the history of a queue that is not there has no error")
		}
	})
}
