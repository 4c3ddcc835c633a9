package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/seed81422ce9/jobs"
)

// memory keeps Orders in memory. Orders and jobs end with the process.
type memory struct {
	client *jobs.Client
	mu     sync.Mutex
	orders map[string]Order
}

func (m *memory) Place(_ context.Context, o Order, enqueue func(*jobs.Client) error) error {
	m.mu.Lock()
	defer m.mu.Unlock() // handlers see the order only when all of its jobs are stored
	if _, ok := m.orders[o.ID]; ok {
		return errPlaced
	}
	if err := enqueue(m.client); err != nil {
		return err // handlers of jobs that were stored find no order
	}
	m.orders[o.ID] = o
	return nil
}

func (m *memory) Get(_ context.Context, id string) (Order, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.orders[id]
	if !ok {
		return o, errNoOrder
	}
	return o, nil
}

func (m *memory) Sold(_ context.Context, region string) (cents int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.orders {
		if o.Region == region {
			cents += o.Cents
		}
	}
	return cents, nil
}

// printed implements Outside by printing lines.
type printed struct {
	mu   sync.Mutex
	out  io.Writer
	done map[string]bool // by key
}

func (p *printed) once(key, line string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done[key] {
		return nil
	}
	if p.done == nil {
		p.done = make(map[string]bool)
	}
	p.done[key] = true
	_, err := fmt.Fprintln(p.out, line)
	return err
}

func (p *printed) SendMail(_ context.Context, key, to, text string) error {
	return p.once(key, "mail to "+to+": "+text)
}

func (p *printed) BookParcel(_ context.Context, key, order string) error {
	return p.once(key, "parcel of order "+order)
}

func (p *printed) Shrink(_ context.Context, picture string) error {
	return p.once("thumbnail:"+picture, "thumbnail of "+picture)
}
