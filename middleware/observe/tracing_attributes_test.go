package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestTracingAttributes_SpansHaveTheAttributesOfTheConventions(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{})
	client, b := enqueueThrough(t, r.Tracing)
	info, err := client.Enqueue(t.Context(), jobs.NewTask("email", []byte("secret")), jobs.WithID("7"), jobs.WithPriority(jobs.PriorityUrgent),
		jobs.WithCorrelationID("order-5"))
	if err != nil {
		t.Fatal(err)
	}
	job := stored(t, b, info.ID)
	job.Worker, job.Failures, job.Deliveries = "w1", 2, 3
	if err := r.run(t.Context(), job, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	r.Hooks().Claim(jobs.ClaimEvent{Jobs: []broker.Job{*job}, Took: time.Second})
	r.Hooks().Settle(jobs.SettleEvent{Items: []broker.Settlement{{Job: job, Outcome: broker.Complete(nil)}},
		Verdicts: []broker.Verdict{{State: broker.StateCompleted}}})
	const common = "messaging.destination.name=default "
	ofJob := "messaging.jobs.priority=urgent messaging.jobs.type=email messaging.message.conversation_id=order-5 messaging.message.id=7 "
	operation := func(name string) string {
		return "messaging.operation.name=" + name + " messaging.operation.type=" + name + " messaging.system=jobs"
	}
	for i, want := range []string{
		common + ofJob + operation("send"),
		"messaging.client.id=w1 " + common + "messaging.jobs.attempt=2 messaging.jobs.delivery=3 messaging.jobs.outcome=completed " + ofJob +
			operation("process"),
		"messaging.batch.message_count=1 " + common + operation("receive"),
		"messaging.batch.message_count=1 " + common + operation("settle"),
	} {
		span := r.spans.Ended()[i]
		if got := attributes(span.Attributes()); got != want {
			t.Errorf("attributes of %s\ngot  %s\nwant %s", span.Name(), got, want)
		}
		if strings.Contains(fmt.Sprint(span), "secret") {
			t.Errorf("%s shows the payload", span.Name())
		}
	}
	receive, settle := r.spans.Ended()[2], r.spans.Ended()[3]
	if took := receive.EndTime().Sub(receive.StartTime()); took != time.Second {
		t.Errorf("the span of a claim that took a second has %v", took)
	}
	if got := attributes(settle.Links()[0].Attributes); got != "messaging.jobs.outcome=completed messaging.message.id=7" {
		t.Errorf("the link of the settle has %s", got)
	}
}

// Values that most jobs have are left out: a ninth attribute would cost the SDK a
// sixth more time for the span.
func TestTracingAttributes_AttributesOfTheUsualJobAreLeftOut(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{})
	client, b := enqueueThrough(t, r.Tracing)
	info, err := client.Enqueue(t.Context(), jobs.NewTask("email", nil), jobs.WithID("7"))
	if err != nil {
		t.Fatal(err)
	}
	job := stored(t, b, info.ID)
	job.Worker = "w1"
	if err := r.run(t.Context(), job, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	const ofJob = "messaging.jobs.type=email messaging.message.id=7 messaging.operation.name="
	for i, want := range []string{
		"messaging.destination.name=default " + ofJob + "send messaging.operation.type=send messaging.system=jobs",
		"messaging.client.id=w1 messaging.destination.name=default messaging.jobs.outcome=completed " + ofJob +
			"process messaging.operation.type=process messaging.system=jobs",
	} {
		span := r.spans.Ended()[i]
		if got := attributes(span.Attributes()); got != want || len(span.Attributes()) > 8 {
			t.Errorf("attributes of %s\ngot  %s\nwant %s", span.Name(), got, want)
		}
	}
}

// A run shares attributes with the run before it only if worker and outcome are
// the same.
func TestTracingAttributes_EachRunSaysWhoRanItAndHowItEnded(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{})
	var want []string
	for _, c := range []struct {
		worker, outcome string
		err             error
	}{{"w1", "completed", nil}, {"w1", "completed", nil}, {"w2", "completed", nil}, {"w2", "retried", errors.New("oops")},
		{"w1", "completed", nil}} {
		_ = r.run(t.Context(), &broker.Job{Queue: "q", Worker: c.worker, Body: broker.Body{MaxRetries: 1}},
			func(context.Context) error { return c.err })
		want = append(want, c.worker+" "+c.outcome)
	}
	var got []string
	for _, span := range r.spans.Ended() {
		of := make(map[attribute.Key]string)
		for _, a := range span.Attributes() {
			of[a.Key] = a.Value.String()
		}
		got = append(got, of["messaging.client.id"]+" "+of[attrOutcome])
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
