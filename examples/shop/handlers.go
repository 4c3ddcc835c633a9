package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed81422ce9/jobs"
)

// Handlers returns the handlers of all tasks.
func (s *Shop) Handlers() *jobs.ServeMux {
	mux := jobs.NewServeMux()
	jobs.Handle(mux, SendReceipt, s.sendReceipt)
	jobs.Handle(mux, BookParcel, s.bookParcel)
	jobs.Handle(mux, MakeThumbnails, s.makeThumbnails)
	jobs.Handle(mux, ReportNight, s.reportNight)
	jobs.Handle(mux, ReportRegion, s.reportRegion)
	jobs.Handle(mux, ReportSum, s.reportSum)
	return mux
}

// begin receipt

// sendReceipt mails a receipt. The order's number is the key by which the mail
// server knows a mail that it has sent: the job may run twice.
func (s *Shop) sendReceipt(ctx context.Context, r Receipt, _ *jobs.Job) error {
	o, err := s.Orders.Get(ctx, r.Order)
	if errors.Is(err, errNoOrder) {
		return jobs.Cancel(err) // there is nothing to do, and no error to look at
	}
	if err != nil {
		return err // it is tried again
	}
	text := fmt.Sprintf("Order %s: %d.%02d", o.ID, o.Cents/100, o.Cents%100)
	return s.Outside.SendMail(ctx, "receipt:"+o.ID, o.Customer, text)
}

// end receipt

func (s *Shop) bookParcel(ctx context.Context, p Parcel, _ *jobs.Job) error {
	return s.Outside.BookParcel(ctx, "parcel:"+p.Order, p.Order)
}

// begin thumbnails

// makeThumbnails makes a thumbnail of each picture. It reports its progress, and continues from there
// after a crash.
func (s *Shop) makeThumbnails(ctx context.Context, t Thumbnails, job *jobs.Job) error {
	o, err := s.Orders.Get(ctx, t.Order)
	if err != nil {
		return err
	}
	done, _ := strconv.Atoi(string(job.Checkpoint())) // 0 at first
	for ; done < len(o.Pictures); done++ {
		if err := s.Outside.Shrink(ctx, o.Pictures[done]); err != nil {
			return err
		}
		job.SetProgress(int64(done+1), int64(len(o.Pictures)), o.Pictures[done])
		if err := job.SetCheckpoint(ctx, []byte(strconv.Itoa(done+1))); err != nil {
			return err
		}
	}
	return nil
}

// end thumbnails
