package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

type invoice struct{ Cents int64 }

// euros reads version 1 of an invoice, of which version 0 was the number alone.
func euros(version int, payload []byte) (invoice, error) {
	var old struct{ Euros int64 }
	if version == 0 {
		err := json.Unmarshal(payload, &old.Euros)
		return invoice{old.Euros * 100}, err
	}
	if string(payload) == "panic" {
		panic("a mistake")
	}
	err := json.Unmarshal(payload, &old)
	return invoice{old.Euros * 100}, err
}

func TestVersion_HandlersGetArgumentsOfEachVersionThatTheyKnow(t *testing.T) {
	t.Parallel()
	for name, def := range map[string]jobs.Definition[invoice]{
		"with an upgrade":    jobs.Define[invoice]("invoice").Version(2, euros),
		"without an upgrade": jobs.Define[invoice]("invoice").Version(2, nil),
	} {
		for _, c := range []struct {
			version   int
			payload   string
			cents     int64
			outcome   string // with an upgrade
			otherwise string
		}{
			{2, `{"Cents":1250}`, 1250, jobs.EndedCompleted, jobs.EndedCompleted},
			{1, `{"Euros":7}`, 700, jobs.EndedCompleted, jobs.EndedDead},
			{0, `7`, 700, jobs.EndedCompleted, jobs.EndedDead},
			{3, `{"Cents":1250}`, 0, jobs.EndedSnoozed, jobs.EndedSnoozed}, // for a server that knows it
			{1, `seven`, 0, jobs.EndedDead, jobs.EndedDead},
			{1, `panic`, 0, jobs.EndedDead, jobs.EndedDead},
			{2, `seven`, 0, jobs.EndedDead, jobs.EndedDead},
		} {
			t.Run(fmt.Sprintf("%s, version %d of %s", name, c.version, c.payload), func(t *testing.T) {
				t.Parallel()
				got, want := int64(0), c.outcome
				if name == "without an upgrade" {
					if want = c.otherwise; want != c.outcome {
						c.cents = 0
					}
				}
				b, mux := jobstest.New(t), jobs.NewServeMux()
				jobs.Handle(mux, def, func(_ context.Context, i invoice, _ *jobs.Job) error { got = i.Cents; return nil })
				task := jobs.NewTask("invoice", []byte(c.payload), jobs.WithTypeVersion(c.version))
				if _, err := b.Client().Enqueue(t.Context(), task); err != nil {
					t.Fatal(err)
				}
				report := jobstest.Drain(t, b, mux)
				outcome := map[[3]int]string{{1, 0, 0}: jobs.EndedCompleted, {0, 1, 0}: jobs.EndedDead, {0, 0, 1}: jobs.EndedSnoozed}[[3]int{
					report.Completed, report.Dead, report.Snoozed}]
				if outcome != want || got != c.cents {
					t.Errorf("it is %q, and the handler gets %d; want %q and %d\n%v", outcome, got, want, c.cents, report.Failures)
				}
			})
		}
	}
}

func TestVersion_BatchesGetThemTooAndTasksHaveIt(t *testing.T) {
	t.Parallel()
	def := jobs.Define[invoice]("invoice").Version(2, euros)
	b, mux := jobstest.New(t), jobs.NewServeMux()
	var got []int64
	jobs.HandleMany(mux, def, jobs.ManyConfig{Max: 2}, func(_ context.Context, batch []*jobs.BatchJob[invoice]) error {
		for _, j := range batch {
			got = append(got, j.Args.Cents)
		}
		return nil
	})
	if _, err := def.Enqueue(t.Context(), b.Client(), invoice{1250}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client().Enqueue(t.Context(), jobs.NewTask("invoice", []byte(`{"Euros":7}`), jobs.WithTypeVersion(1))); err != nil {
		t.Fatal(err)
	}
	jobstest.Enqueued(t, b, def, jobstest.Args(invoice{1250}), jobstest.With(jobs.WithTypeVersion(2)))
	jobstest.Drain(t, b, mux)
	if fmt.Sprint(got) != "[1250 700]" {
		t.Errorf("the batch gets %v, want 1250 and 700", got)
	}
}

func TestVersion_RefusesNone(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := recover(); v == nil {
			t.Error("version 0 was accepted, which is that of jobs without one")
		}
	}()
	jobs.Define[invoice]("invoice").Version(0, nil)
}

func ExampleDefinition_Version() {
	// begin version
	type Invoice struct{ Cents int64 }
	var makeInvoice = jobs.Define[Invoice]("invoice:make").Version(2, func(version int, payload []byte) (Invoice, error) {
		switch version {
		case 0, 1: // until August it was in euros
			var old struct{ Euros int64 }
			err := json.Unmarshal(payload, &old)
			return Invoice{Cents: old.Euros * 100}, err
		}
		return Invoice{}, errors.New("nobody has written this version")
	})
	mux := jobs.NewServeMux()
	jobs.Handle(mux, makeInvoice, func(_ context.Context, i Invoice, _ *jobs.Job) error {
		fmt.Println(i.Cents, "cents")
		return nil
	})
	// end version
	old := jobs.JobRecord{}
	old.Type, old.TypeVersion, old.Payload = "invoice:make", 1, []byte(`{"Euros":7}`)
	if err := mux.ProcessJob(context.Background(), jobs.NewJob(&old)); err != nil {
		fmt.Println(err)
	}
	// Output: 700 cents
}
