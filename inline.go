package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
	"github.com/seed81422ce9/jobs/internal/inline"
)

func init() {
	inline.Start = func(ctx context.Context, server, handler any) (inline.Runner, error) {
		h, _ := handler.(Handler)
		return server.(*Server).inline(ctx, h)
	}
	inline.Context = func(ctx context.Context, job any) context.Context {
		j := job.(*Job)
		run := engine.Under(ctx, j.record)
		run.View = j
		j.run.Store(run)
		return run
	}
}

// inlineRunner runs a server's jobs and those of its extensions alternately.
type inlineRunner struct {
	own, extended *engine.Inline // extended is nil if no extension has a queue
	begun         bool
	once          []func(context.Context, bool) error
}

func (s *Server) inline(ctx context.Context, h Handler) (inline.Runner, error) {
	p, err := s.policy(h)
	if err != nil {
		return nil, err
	}
	own, ok := s.engine.Inline(ctx, p)
	if !ok {
		return nil, ErrStarted
	}
	r := &inlineRunner{own: own}
	if x := s.extended; x != nil && x.engine != nil {
		r.extended, _ = x.engine.Inline(ctx, x.policy(s))
	}
	for _, e := range s.cfg.Extensions {
		if e.Once != nil {
			r.once = append(r.once, e.Once)
		}
	}
	return r, nil
}

// Step runs due jobs of the server and its extensions until none is left or it has begun
// max runs.
func (r *inlineRunner) Step(ctx context.Context, max int) (begun int, err error) {
	for more := true; more && begun < max && err == nil; {
		for _, once := range r.once {
			err = errors.Join(err, insist(ctx, once, !r.begun))
		}
		r.begun, more = true, false
		for _, in := range []*engine.Inline{r.extended, r.own} {
			if in == nil || err != nil {
				continue
			}
			var n int
			n, err = in.Step(ctx, max-begun)
			begun += n
			more = more || n > 0
		}
	}
	return begun, err
}

// onceAttempts is how often an Extension.Once that fails in the store is repeated. A server that was
// started repeats it without end. A test should end.
const onceAttempts = 20

// insist calls once, and again if the store failed.
func insist(ctx context.Context, once func(context.Context, bool) error, begin bool) (err error) {
	for attempt := 0; attempt < onceAttempts; attempt++ {
		if err = once(ctx, begin); !broker.StoreFailed(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (r *inlineRunner) Due() time.Time { return r.own.Due() }

func (r *inlineRunner) Queues() []string { return r.own.Queues() }

func (r *inlineRunner) Stop(ctx context.Context) {
	r.own.Stop(ctx)
	if r.extended != nil {
		r.extended.Stop(ctx)
	}
}
