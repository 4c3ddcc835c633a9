package observe

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// A method that is added to Broker is found here, and needs a name in commandNames.
func TestMetrics_EveryMethodOfTheBrokerIsMeasuredUnderItsName(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	measured, kind := reflect.ValueOf(m.metrics.Broker()), reflect.TypeFor[broker.Broker]()
	var names []string
	for i := range kind.NumMethod() {
		method := kind.Method(i)
		if method.Type.NumIn() == 0 || method.Type.In(0) != reflect.TypeFor[context.Context]() {
			continue
		}
		args := []reflect.Value{reflect.ValueOf(ctx)}
		for n := 1; n < method.Type.NumIn(); n++ {
			args = append(args, reflect.Zero(method.Type.In(n)))
		}
		measured.MethodByName(method.Name).Call(args) // most refuse the empty request, which is measured too
		names = append(names, method.Name)
	}
	got := values(t, m.registry)
	for _, name := range names {
		series := "jobs_store_command_duration_seconds{command=" + strings.ToLower(name) + "}"
		if got[series] == 0 {
			t.Errorf("a call of %s is not measured as %s", name, series)
		}
	}
}

func TestMetrics_AnUnknownMethodIsMeasuredAsOther(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{})
	refused := broker.Invalid("queue", "has no name")
	err := m.metrics.measure(t.Context(), &broker.Call{Method: "Later"}, func(context.Context) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("the call's error is %v", err)
	}
	got := values(t, m.registry)
	for _, name := range []string{"jobs_store_command_duration_seconds{command=other}",
		"jobs_store_errors_total{command=other,error=refused}"} {
		if got[name] != 1 {
			t.Errorf("%s is %v, want 1", name, got[name])
		}
	}
}
