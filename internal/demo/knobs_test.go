package demo

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
)

func TestDemo_TenSecondsShowAKillAndItsReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, membroker.NewStore(), func(cfg *Config) {
			cfg.Knobs, cfg.CrashEvery = Usual(), 15*time.Second
			cfg.Fail = 0.4 // so that chance leaves none out
		})
		defer stop(t, d)
		time.Sleep(3900 * time.Millisecond)
		if n := d.Totals(); n.Crashes != 0 {
			t.Errorf("before four seconds %d workers were killed, want none", n.Crashes)
		}
		time.Sleep(500 * time.Millisecond)
		if n := d.Totals(); n.Crashes != 1 {
			t.Errorf("soon after four seconds %d workers were killed, want one", n.Crashes)
		}
		time.Sleep(5600 * time.Millisecond)
		var told strings.Builder
		for _, e := range d.Events() {
			told.WriteString(e.Text + "\n")
		}
		for _, text := range []string{"began to take jobs", "first run that failed", "was killed", "reclaimed", "first dead job"} {
			if strings.Count(told.String(), text) != 1 {
				t.Errorf("ten seconds of events say %q other than once:\n%s", text, told.String())
			}
		}
		if k := d.Kills(); len(k) != 1 || k[0].Reclaimed == 0 || k[0].By == "" || k[0].By == k[0].Worker || k[0].After < lease/2 ||
			k[0].After > 5*time.Second {
			t.Errorf("the history of kills is %+v, want one whose jobs others reclaimed", k)
		}
	})
}

func TestDemo_TheTotalsAddUpAtAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, membroker.NewStore(), func(cfg *Config) { cfg.Rate = 200 })
		defer stop(t, d)
		for range 500 {
			time.Sleep(37 * time.Millisecond)
			if n := d.Totals(); !balanced(n) {
				t.Fatalf("%d enqueued are not %d done + %d cancelled + %d deleted + %d waiting + %d dead",
					n.Enqueued, n.Done, n.Cancelled, n.Deleted, n.Waiting, n.DeadNow)
			}
		}
		if n := d.Totals(); n.Waiting == 0 || n.DeadNow == 0 || n.Done == 0 {
			t.Errorf("nothing of it is to be seen: %+v", n)
		}
	})
}

func TestDemo_KnobsTakeEffectWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, membroker.NewStore(), func(cfg *Config) { cfg.Knobs, cfg.CrashEvery = Knobs{Latency: 1}, 0 })
		if err := d.Kill(); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Kill without workers: %v, want ErrNoWorker", err)
		}
		if err := d.Enqueue(t.Context(), "email:welcome", 40); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := d.Totals(); n.Enqueued != 40 || n.Waiting != 40 {
			t.Fatalf("without workers, 40 jobs were enqueued and the totals are %+v", n)
		}
		set := func(k Knobs) {
			t.Helper()
			if err := d.Set(k); err != nil || d.Knobs() != k {
				t.Fatalf("Set(%+v) = %v, and the knobs are %+v", k, err, d.Knobs())
			}
		}
		set(Knobs{Latency: 1, Workers: 5, Fail: 1})
		time.Sleep(time.Minute)
		if n := d.Totals(); n.DeadNow != 40 || n.Waiting != 0 {
			t.Errorf("with every run failing, 40 jobs are not dead: %+v", n)
		}
		set(Knobs{Latency: 0, Workers: 1, Rate: 50})
		time.Sleep(time.Minute)
		if n := d.Totals(); n.Done < 1000 || n.DeadNow != 40 {
			t.Errorf("after a minute at 50 jobs a second, without failures: %+v", n)
		}
		if err := d.Kill(); err != nil || len(d.Kills()) != 1 {
			t.Errorf("Kill = %v, and the kills are %+v", err, d.Kills())
		}
		if a := stop(t, d); !a.Balanced() {
			t.Errorf("the accounts do not balance: %+v", a)
		}
		for what, err := range map[string]error{"Set": d.Set(Usual()), "Kill": d.Kill(), "Enqueue": d.Enqueue(t.Context(), "email:welcome", 1)} {
			if !errors.Is(err, ErrEnded) {
				t.Errorf("%s after Stop: %v, want ErrEnded", what, err)
			}
		}
	})
}

func TestDemo_KnobsHaveBounds(t *testing.T) {
	t.Parallel()
	for what, turn := range map[string]func(*Knobs){
		"the rate": func(k *Knobs) { k.Rate = 5001 }, "the shares": func(k *Knobs) { k.Fail, k.Hang = 0.9, 0.2 },
		"the latency": func(k *Knobs) { k.Latency = math.NaN() }, "the number of workers": func(k *Knobs) { k.Workers = -1 },
	} {
		k := Usual()
		turn(&k)
		if err := k.Check(); err == nil || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("%+v: %v, want an error about %s", k, err, what)
		}
	}
	if err := Usual().Check(); err != nil {
		t.Error(err)
	}
	d := &Demo{}
	if d.Enqueue(t.Context(), "nonsense", 1) == nil || d.Enqueue(t.Context(), "email:welcome", 1001) == nil ||
		d.Enqueue(t.Context(), "email:welcome", 0) == nil {
		t.Error("Enqueue took an unknown type or a number out of bounds")
	}
}
