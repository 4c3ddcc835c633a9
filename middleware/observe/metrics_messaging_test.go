package observe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed81422ce9/jobs"
)

// The messaging metrics of aLife are labelled by operation, queue and error.
func TestMetrics_MessagingFollowsTheConventions(t *testing.T) {
	t.Parallel()
	var families map[string]*dto.MetricFamily
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{Messaging: true})
		finish := aLife(t, m)
		families = scrape(t, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
		finish()
	})
	ours := map[string]float64{}
	for _, name := range []string{"jobs_enqueued_total", "jobs_duplicate_total", "jobs_refused_total", "jobs_claimed_total",
		"jobs_processing_latency_seconds", "jobs_settle_duration_seconds"} {
		ours[name] = total(families[name], nil)
	}
	for _, want := range []struct {
		name, operation string
		n               float64
	}{
		{"messaging_client_sent_messages_total", "send", ours["jobs_enqueued_total"] + ours["jobs_refused_total"] +
			total(families["jobs_duplicate_total"], map[string]string{"where": "enqueue"})},
		{"messaging_client_consumed_messages_total", "receive", ours["jobs_claimed_total"]},
		{"messaging_process_duration_seconds", "process", ours["jobs_processing_latency_seconds"]},
		{"messaging_client_operation_duration_seconds", "settle", ours["jobs_settle_duration_seconds"]},
	} {
		if got := total(families[want.name], map[string]string{"messaging_operation_name": want.operation,
			"messaging_system": "jobs"}); got != want.n || got == 0 {
			t.Errorf("%s has %v of %s, our own metrics %v", want.name, got, want.operation, want.n)
		}
	}
	failed := map[string]string{"error_type": "_OTHER", "messaging_destination_name": "default"}
	if got := total(families["messaging_client_sent_messages_total"], failed); got != 2 {
		t.Errorf("%v messages were refused or duplicates, want 2", got)
	}
	if got, want := total(families["messaging_process_duration_seconds"], failed), total(families["messaging_process_duration_seconds"],
		nil); got == 0 || got >= want {
		t.Errorf("%v of %v runs failed, want some of them", got, want)
	}
}

// A run that snoozes or cancels its job is no error, in metrics as in spans.
func TestMetrics_MessagingErrorsAreRunsThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{Messaging: true})
		m.enqueue(t, "now")
		returns := []error{jobs.Snooze(time.Second), jobs.RetryAfter(time.Second, errors.New("not yet")), jobs.Snooze(time.Second),
			jobs.Cancel(nil)}
		stop := m.serve(t, jobs.Config{}, jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
			err := returns[0]
			returns = returns[1:]
			return err
		}))
		pass(time.Minute)
		runs := scrape(t, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))["messaging_process_duration_seconds"]
		stop()
		if all, bad := total(runs, nil), total(runs, map[string]string{"error_type": "_OTHER"}); all != 4 || bad != 1 {
			t.Errorf("%v of %v runs are errors, want 1 of 4", bad, all)
		}
	})
}

// total adds up the values, or the observations, of the series with these labels.
func total(family *dto.MetricFamily, labels map[string]string) (sum float64) {
	for _, m := range family.GetMetric() {
		got, fits := labelsOf(m), true
		for label, value := range labels {
			fits = fits && got[label] == value
		}
		if fits {
			sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}
