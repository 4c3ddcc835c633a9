package shardbroker

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// routes says which shard a job belongs to: the one whose name, together with the job's
// label, has the highest hash (rendezvous hashing). So a new shard takes over only the labels
// for which it is the highest, and removing a shard moves only the labels of that shard.
type routes struct {
	now    []*shard  // the shards for new jobs after the switch
	former []*shard  // the shards before the switch; nil if nothing changes
	fixed  []*shard  // the shards for marks, which do not move
	at     time.Time // the switch
}

func newRoutes(shards []*shard) (r routes, err error) {
	for _, s := range shards {
		for _, at := range []time.Time{s.From, s.Until} {
			if at.IsZero() {
				continue
			}
			if !r.at.IsZero() && !r.at.Equal(at) {
				return r, broker.Invalid("shard",
					"%q changes at another time than other shards; use the same time for all, and NoMarks for those that joined earlier", s.Name)
			}
			r.at = at
		}
		if !s.From.IsZero() && !s.Until.IsZero() {
			return r, broker.Invalid("shard", "%q has both From and Until; use one of them", s.Name)
		}
		if s.Until.IsZero() {
			r.now = append(r.now, s)
		}
		if s.From.IsZero() {
			r.former = append(r.former, s)
		}
		if s.From.IsZero() && !s.NoMarks {
			r.fixed = append(r.fixed, s)
		}
	}
	if len(r.now) == 0 || len(r.former) == 0 {
		return r, broker.Invalid("shards", "are none before or after the change; keep one of them, or add one")
	}
	if len(r.fixed) == 0 {
		return r, broker.Invalid("shards", "have no place for marks; take NoMarks from one of them")
	}
	if r.at.IsZero() {
		r.former = nil
	}
	return r, nil
}

// of returns the shards that may have a job with a label: the one for new jobs and, while
// shards change, the one before.
func (r *routes) of(label uint64) []*shard {
	home := highest(r.now, label)
	if r.former != nil {
		if former := highest(r.former, label); former != home {
			return []*shard{home, former}
		}
	}
	return []*shard{home}
}

func highest(shards []*shard, label uint64) (best *shard) {
	var most uint64
	for _, s := range shards {
		if n := mix(label ^ s.seed); best == nil || n > most || n == most && s.Name < best.Name {
			best, most = s, n
		}
	}
	return best
}

// label returns the hash that routes a job. It is the same in all queues, so that the jobs
// of a key are in one shard whatever their queues.
func label(id string, b *broker.Body) uint64 {
	switch {
	case b.Key != "":
		return hash("key " + b.Key)
	case b.Unique.Key != "":
		return hash("unique " + b.Unique.Key)
	}
	return hash("id " + id)
}

// hash returns FNV-1a, finished by mix. No store uses it to distribute its keys or rows. It
// never changes, since it finds stored jobs.
func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return mix(h.Sum64())
}

// mix returns the last steps of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// holds returns the shards that may have the lease of a job of a worker with these strays. For a broken job these are all
// shards, since its body cannot be read.
func (b *Broker) holds(strays map[broker.Ref]*shard, j *broker.Job) []*shard {
	if j.Broken != nil {
		return b.shards
	}
	if from := strays[j.Ref()]; from != nil {
		return []*shard{from}
	}
	return b.routes.of(label(j.ID, &j.Body))
}

// noteStrays remembers from which shard a worker has jobs that do not belong there. They were stored without this broker,
// by processes with another list of shards, or before a change of shards that is over. Each must end where it is.
func (b *Broker) noteStrays(worker string, s *shard, jobs []broker.Job) {
	for i := range jobs {
		j := &jobs[i]
		if j.Broken != nil || slices.Contains(b.routes.of(label(j.ID, &j.Body)), s) {
			continue
		}
		b.mu.Lock()
		if b.strays[worker] == nil {
			b.strays[worker] = make(map[broker.Ref]*shard)
		}
		b.strays[worker][j.Ref()] = s
		b.mu.Unlock()
	}
}

// forgetStrays forgets jobs whose leases have ended.
func (b *Broker) forgetStrays(worker string, items []broker.Settlement, verdicts []broker.Verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.strays[worker]
	for i := range verdicts {
		if v := &verdicts[i]; len(of) > 0 && v.State != broker.StateActive && !broker.StoreFailed(v.Err) {
			delete(of, items[i].Job.Ref())
		}
	}
}
