package broker_test

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

type store struct {
	broker.Broker
	name string
}

type wrapper struct{ broker.Broker }

func (w wrapper) Unwrap() broker.Broker { return w.Broker }

type opaque struct{ broker.Broker }

func TestAs_LooksInsideOfWrappers(t *testing.T) {
	t.Parallel()
	inner := &store{name: "inner"}
	for name, b := range map[string]broker.Broker{"itself": inner, "wrapped": wrapper{inner}, "wrapped twice": wrapper{wrapper{inner}}} {
		if got, ok := broker.As[*store](b); !ok || got != inner {
			t.Errorf("%s: As gives %v, %v", name, got, ok)
		}
	}
	for name, b := range map[string]broker.Broker{"nil": nil, "a wrapper of nothing": wrapper{}, "one that does not unwrap": opaque{inner}} {
		if got, ok := broker.As[*store](b); ok || got != nil {
			t.Errorf("%s: As gives %v, %v", name, got, ok)
		}
	}
	if w, ok := broker.As[wrapper](wrapper{inner}); !ok || w.Broker != inner {
		t.Errorf("the wrapper itself: %v, %v", w, ok)
	}
}
