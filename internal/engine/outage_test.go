package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestOutage_IsToldOfAtGrowingIntervals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o outage
		var told []time.Duration
		began := time.Now()
		for time.Since(began) < time.Hour {
			if o.failed(time.Now(), errCut) {
				told = append(told, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		for i, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if len(told) <= i || told[i] != want {
				t.Fatalf("an outage of an hour was told of at %v, want a line at %v", told, want)
			}
		}
		if n := len(told); n < 10 || n > 20 {
			t.Errorf("an outage of an hour was told of %d times", n)
		}
		if !o.ended() || o.ended() || !o.failed(time.Now(), errCut) {
			t.Error("the end of an outage is not noticed once, or the next one not told of at once")
		}
	})
}

// A connection that breaks all the time must not fill the log.
func TestOutage_ManyShortOnesAreToldOfSeldom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o outage
		begun, ended := 0, 0
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
			if o.failed(time.Now(), errCut) {
				begun++
			}
			if o.ended() {
				ended++
			}
		}
		if begun != 6 || ended != begun {
			t.Errorf("of 600 outages in a minute, %d beginnings and %d ends were told of, want 6", begun, ended)
		}
		for began := time.Now(); !o.failed(time.Now(), errCut); time.Sleep(time.Second) {
			if time.Since(began) > outageLogged {
				t.Fatal("a long outage after many short ones was not told of")
			}
		}
	})
}

// A call for a thousand queues may have an error for each.
func TestOutage_ALineHasTheFirstErrorsOfMany(t *testing.T) {
	t.Parallel()
	var all []error
	for i := range 1000 {
		all = append(all, broker.About(broker.ErrUnavailable, "prune", fmt.Sprint("queue", i), ""))
	}
	for _, err := range []error{errors.Join(all...), broker.About(errors.Join(all...), "prune", "", "")} {
		var o outage
		o.failed(time.Now(), err)
		text := fmt.Sprint(o.args()...)
		if len(text) > 1000 || !strings.Contains(text, "queue0") || !strings.Contains(text, "and 997 more") ||
			!errors.Is(o.err, broker.ErrUnavailable) {
			t.Errorf("the errors of a thousand queues are told of as %d bytes: %.200s…", len(text), text)
		}
	}
	var o outage
	if o.failed(time.Now(), errCut); o.err != errCut {
		t.Errorf("a single error is told of as %v", o.err)
	}
}
