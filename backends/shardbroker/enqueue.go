package shardbroker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Enqueue sends each job to its shard. If a shard fails, the receipts of its jobs
// have the error. §2, §18, §19.
func (b *Broker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	now := req.Now
	if now.IsZero() {
		now = b.now(ctx)
	}
	parts := make(map[*shard]*batch, len(b.shards))
	receipts, followers := make([]broker.Receipt, len(req.Jobs)), []int(nil)
	for i := range req.Jobs {
		j := &req.Jobs[i]
		s, careful := b.target(label(j.ID, &j.Body), j, now)
		if careful {
			followers = append(followers, i)
			continue
		}
		p := parts[s]
		if p == nil {
			p = new(batch)
			parts[s] = p
		}
		p.jobs, p.places = append(p.jobs, *j), append(p.places, i)
	}
	if len(req.Jobs) == 0 {
		parts[b.shards[0]] = new(batch)
	}
	refused := b.refuseHung(parts, req.Jobs, receipts)
	var following sync.WaitGroup
	if len(followers) > 0 { // the other jobs do not wait for them
		following.Go(func() {
			for _, i := range followers {
				receipts[i] = b.follow(ctx, &req.Jobs[i], req.Now, now)
			}
		})
	}
	answers := ask(ctx, among(b.shards, parts), func(s *shard) ([]broker.Receipt, error) {
		return s.Broker.Enqueue(ctx, broker.EnqueueRequest{Now: req.Now, Jobs: parts[s].jobs})
	})
	following.Wait()
	known := 0
	for _, a := range answers {
		if a.err == nil {
			known++
		}
		for n, i := range parts[a.of].places {
			if a.err != nil || n >= len(a.got) {
				receipts[i] = broker.Receipt{Queue: req.Jobs[i].Queue, ID: req.Jobs[i].ID, Err: a.err}
			} else {
				receipts[i] = a.got[n]
			}
		}
	}
	if known == 0 && len(followers) == 0 && !refused {
		return nil, failed(answers)
	}
	return receipts, nil
}

// refuseHung refuses the jobs of shards that lately did not answer in time: each call would wait for them again, and so
// would the jobs of other shards in it. Shards that fail at once are asked each time.
func (b *Broker) refuseHung(parts map[*shard]*batch, jobs []broker.NewJob, receipts []broker.Receipt) (refused bool) {
	for s, p := range parts {
		err := s.hangs()
		if err == nil || len(p.places) == 0 {
			continue
		}
		for _, i := range p.places {
			receipts[i] = refusal(&jobs[i], err)
		}
		delete(parts, s)
		refused = true
	}
	return refused
}

// hangs returns the error for jobs of a shard that lately did not answer in time; nil if it did.
func (s *shard) hangs() error {
	wait, hung := s.away()
	if wait <= 0 || !hung {
		return nil
	}
	hint := fmt.Sprintf("shard %q did not answer; it is asked again in %v", s.Name, wait.Round(time.Millisecond))
	return &broker.Error{Err: broker.ErrUnavailable, Hint: hint}
}

func refusal(j *broker.NewJob, err error) broker.Receipt {
	return broker.Receipt{Queue: j.Queue, ID: j.ID, Err: broker.About(err, "enqueue", j.Queue, j.ID)}
}

// batch is what a request has for one shard.
type batch struct {
	jobs   []broker.NewJob
	places []int // the positions of the jobs in the request
}
