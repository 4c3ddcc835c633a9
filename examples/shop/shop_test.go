package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/jobstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin transaction

// transactions keeps orders as a database does: with their jobs, or not at all.
type transactions struct {
	memory
	b *jobstest.Broker
}

func (o *transactions) Place(ctx context.Context, order Order, enqueue func(*jobs.Client) error) error {
	tx := o.b.Begin()
	if err := enqueue(o.b.Client().In(tx)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if _, ok := o.orders[order.ID]; ok {
		return errors.Join(errPlaced, tx.Rollback())
	}
	o.orders[order.ID] = order
	return tx.Commit()
}

// end transaction

// outside records calls, once for each key.
type outside struct {
	out    bytes.Buffer
	broken map[string]error // by picture, for the next call
	printed
}

func (o *outside) Shrink(ctx context.Context, picture string) error {
	if err := o.broken[picture]; err != nil {
		delete(o.broken, picture)
		return err
	}
	return o.printed.Shrink(ctx, picture)
}

// count returns the number of lines that begin with text.
func (o *outside) count(text string) int { return strings.Count("\n"+o.out.String(), "\n"+text) }

func open(t *testing.T) (*Shop, *outside, *jobstest.Broker) {
	t.Helper()
	b, o := jobstest.New(t), &outside{broken: make(map[string]error)}
	o.printed.out = &o.out
	return &Shop{Orders: &transactions{memory{orders: make(map[string]Order)}, b}, Outside: o, Client: b.Client()}, o, b
}

func place(t *testing.T, s *Shop, id, customer string) {
	t.Helper()
	o := Order{ID: id, Customer: customer, Region: "west", Cents: 1250, Pictures: []string{id + "-front", id + "-back"}}
	if err := s.Place(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// begin test

func TestShop_AnOrderHasAllItsJobsOrNone(t *testing.T) {
	t.Parallel()
	s, out, b := open(t)
	place(t, s, "1001", "ada")
	if err := s.Place(t.Context(), Order{ID: "1001", Customer: "eve"}); !errors.Is(err, errPlaced) {
		t.Errorf("the same number again: %v, want %v", err, errPlaced)
	}
	jobstest.Enqueued(t, b, SendReceipt, jobstest.Args(Receipt{"1001"})) // one, not two
	jobstest.Enqueued(t, b, BookParcel)
	jobstest.Enqueued(t, b, MakeThumbnails)

	report := jobstest.Drain(t, b, s.Handlers(), jobstest.Everything(), jobstest.NoFailures())
	if report.Completed != 3 || out.count("mail to ada: Order 1001: 12.50") != 1 {
		t.Errorf("%d jobs were completed, want 3; outside:\n%s", report.Completed, &out.out)
	}
}

// end test

func TestShop_AReceiptIsSentOnceAlthoughItsJobRunsTwice(t *testing.T) {
	t.Parallel()
	s, out, _ := open(t)
	place(t, s, "1001", "ada")
	jobstest.CheckIdempotent(t, s.Handlers(), SendReceipt, Receipt{"1001"}, func() any { return out.count("mail") })
	result := jobstest.Run(t, s.Handlers(), SendReceipt, Receipt{"1002"})
	if result.Outcome != jobs.EndedCancelled {
		t.Errorf("the receipt of an order that is not there: %v, want it cancelled", result)
	}
}

func TestShop_ThumbnailsGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	s, out, _ := open(t)
	place(t, s, "1001", "ada")
	out.broken["1001-back"] = errors.New("not uploaded yet")
	result := jobstest.Run(t, s.Handlers(), MakeThumbnails, Thumbnails{"1001"})
	if result.Outcome != jobs.EndedRetried || string(result.Job.Kept.Checkpoint) != "1" || result.Job.Kept.Progress.Done != 1 {
		t.Errorf("%v, checkpoint %q, progress %+v; want a retry, from picture 1", result, result.Job.Kept.Checkpoint, result.Job.Kept.Progress)
	}
	result = jobstest.Run(t, s.Handlers(), MakeThumbnails, Thumbnails{"1001"}, jobstest.Checkpoint(result.Job.Kept.Checkpoint))
	if result.Outcome != jobs.EndedCompleted || out.count("thumbnail") != 2 || result.Job.Kept.Progress.Done != 2 {
		t.Errorf("%v, progress %+v, outside:\n%s", result, result.Job.Kept.Progress, &out.out)
	}
}

func TestShop_ParcelsKeepToTheRateAndCustomersTakeTurns(t *testing.T) {
	t.Parallel()
	s, out, b := open(t)
	if err := Limit(t.Context(), inspect.New(b)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		place(t, s, id, "ada")
	}
	place(t, s, "6", "bob")
	report := jobstest.Drain(t, b, s.Handlers(), jobstest.Everything(), jobstest.NoFailures())
	if out.count("parcel") != 6 || report.Passed < 2*time.Second || report.Passed > time.Minute {
		t.Errorf("%d parcels were booked within %v; six at two a second take 2.5 s", out.count("parcel"), report.Passed)
	}
	text := out.out.String()
	if strings.Index(text, "thumbnail of 6-front") > strings.Index(text, "thumbnail of 3-front") {
		t.Errorf("bob's only order waited for all of ada's:\n%s", text)
	}
}

func TestShop_EachNightIsSummedUpOnce(t *testing.T) {
	t.Parallel()
	s, out, b := open(t)
	place(t, s, "1001", "ada")
	place(t, s, "1002", "bob")
	jobstest.Drain(t, b, s.Handlers(), jobstest.Config(s.Config(b)), jobstest.Ahead(72*time.Hour), jobstest.NoFailures())
	if n := out.count("mail to owner: 3 regions sold 25.00"); n != 3 {
		t.Errorf("%d reports in three days, want 3; outside:\n%s", n, &out.out)
	}
}

func TestRun_TheProgramDoesAllOfIt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "mail to owner: 3 regions sold 208.95") {
		t.Errorf("it printed no report:\n%s", &out)
	}
}
