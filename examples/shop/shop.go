package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/inspect"
)

// Order is what a customer has bought.
type Order struct {
	ID, Customer, Region string
	Cents                int64
	Pictures             []string
}

var (
	errPlaced  = errors.New("there is an order with this number")
	errNoOrder = errors.New("there is no such order")
)

// Orders keeps the orders. On Postgres, Place is a transaction: see
// examples/transaction. In memory, orders and jobs are lost together.
type Orders interface {
	// Place stores an order and the jobs that enqueue adds, or neither.
	Place(ctx context.Context, o Order, enqueue func(inTx *jobs.Client) error) error
	Get(ctx context.Context, id string) (Order, error)
	Sold(ctx context.Context, region string) (cents int64, err error)
}

// Outside has the services that the shop calls. Repeating a call with the same key has
// no second effect.
type Outside interface {
	SendMail(ctx context.Context, key, to, text string) error
	BookParcel(ctx context.Context, key, order string) error
	Shrink(ctx context.Context, picture string) error
}

// Shop is the application.
type Shop struct {
	Orders  Orders
	Outside Outside
	Client  *jobs.Client
}

// begin place

// Place takes an order: the order and its jobs are stored, or nothing is.
func (s *Shop) Place(ctx context.Context, o Order) error {
	return s.Orders.Place(ctx, o, func(inTx *jobs.Client) error {
		customer := jobs.WithPartitionKey(o.Customer) // keys take turns
		if _, err := SendReceipt.Enqueue(ctx, inTx, Receipt{o.ID}, customer, jobs.WithPriority(jobs.PriorityUrgent)); err != nil {
			return err
		}
		if _, err := BookParcel.Enqueue(ctx, inTx, Parcel{o.ID}, customer); err != nil {
			return err
		}
		_, err := MakeThumbnails.Enqueue(ctx, inTx, Thumbnails{o.ID}, customer)
		return err
	})
}

// end place

// begin limits

// Limit sets the limits of the queues, for all servers. It can be repeated.
func Limit(ctx context.Context, inspector *inspect.Inspector) error {
	_, err := inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: queueCarrier, Rate: &inspect.Rate{Jobs: 2, Per: time.Second}})
	if err != nil {
		return err
	}
	_, err = inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: queuePictures, KeyMaxActive: new(int64(2))})
	return err
}

// end limits
