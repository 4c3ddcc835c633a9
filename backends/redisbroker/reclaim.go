package redisbroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// Reclaim ends workers whose leases ran out, and leases their jobs to the caller. It
// asks one queue after the other, so that the sum does not exceed Max. §8.
func (b *Broker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	if err := req.Check(); err != nil {
		return broker.Claimed{}, err
	}
	var got broker.Claimed
	var errs []error
	room, applied := req.ByteLimit(), false // applied: a queue was changed, or may have been
	for _, name := range distinct(req.Queues) {
		if len(got.Jobs) >= req.Max || room <= 0 {
			got.More = true // the other queues were not asked
			break
		}
		s := &step{script: reclaimScript, queues: []string{name}, now: nowArg(req.Now), args: []any{req.Worker, req.Max - len(got.Jobs), room}}
		late := func() { b.release(req.Worker, req.Now, reclaimed(s, &req)) }
		if err := b.run(ctx, late, s); err != nil {
			if applied {
				err = partly(err)
			}
			return got, broker.About(errors.Join(append(errs, err)...), "reclaim", "", "")
		}
		applied = applied || s.code == codeDone && (s.err == nil || broker.MayHaveApplied(s.err))
		switch {
		case s.err != nil:
			errs = append(errs, broker.About(s.err, "reclaim", name, ""))
		case s.code != codeDone:
			errs = append(errs, broker.About(broker.ErrWorkerGone, "reclaim", name, ""))
		default:
			got.Now = later(got.Now, moment(s.at))
			if number(first(s.reply)) == 1 {
				got.More = true
			} else {
				b.members.searched(req.Worker, name, s.at)
			}
			room -= textBytes(s.reply)
			got.Jobs = append(got.Jobs, reclaimed(s, &req)...)
		}
	}
	return got, errors.Join(errs...)
}

// reclaimed reads the jobs of an answer.
func reclaimed(s *step, req *broker.ReclaimRequest) []broker.Job {
	if s.err != nil || s.code != codeDone || len(s.reply) == 0 {
		return nil
	}
	var jobs []broker.Job
	for list := s.reply[1:]; len(list) >= 4; list = list[4:] {
		j := record(s.queues[0], text(list[0]), text(list[1]), text(list[2]), broker.StateActive)
		j.Worker, j.CancelRequested = req.Worker, number(list[3]) == 1
		jobs = append(jobs, j)
	}
	return jobs
}
