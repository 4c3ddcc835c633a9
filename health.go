package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Health returns an HTTP handler for the probes of an orchestrator, and for a
// look at the server from outside. It answers GET and HEAD of three paths:
//
//	/healthz  200 until the server has ended, also while it drains; 503 after that.
//	          Restart the process then, since a server cannot be started again.
//	/readyz   200 while Ready returns nil, otherwise 503 with its error.
//	/stats    JSON: what the server does, and the counts of the queues it serves.
//	          503, with an error in the JSON, if the store does not answer within
//	          5 seconds.
//
// The first two make no call to the store. /stats makes one, whose cost does
// not grow with the queues. The handler changes nothing, and shows no payload,
// header, error of a job or URL. It shows names of queues and hosts, so serve
// it where only operators can reach it. To serve it under another path than /,
// wrap it in http.StripPrefix. Health can be called before the server is started,
// and any number of times.
func (s *Server) Health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.alive()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.Ready()) })
	mux.HandleFunc("GET /stats", s.serveStats)
	return mux
}

// alive returns an error once the server has ended. It takes the server's lock, so
// that a probe of a deadlocked server gets no answer.
func (s *Server) alive() error {
	s.engine.Stats()
	select {
	case <-s.engine.Done():
		return errors.New("jobs: the server has ended")
	default:
		return nil
	}
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// statsTimeout is shorter than the ten seconds after which scrapers give up.
const statsTimeout = 5 * time.Second

// stats is the answer of /stats. Programs read its fields: renaming one breaks them.
type stats struct {
	Ready       bool         `json:"ready"`
	Reason      string       `json:"reason,omitempty"` // why it is not ready
	Error       string       `json:"error,omitempty"`  // why queues are missing
	Program     string       `json:"program"`
	Worker      string       `json:"worker,omitempty"` // the server's ID in the store
	Draining    bool         `json:"draining"`
	Concurrency int          `json:"concurrency"`
	Running     int          `json:"running"`    // handlers that have not returned
	Stuck       int          `json:"stuck"`      // of these, see Config.StuckGrace
	Prefetched  int          `json:"prefetched"` // leased jobs that wait for a slot
	Types       []typeStats  `json:"types,omitempty"`
	LastClaim   *time.Time   `json:"last_claim,omitempty"`
	LastRenewal *time.Time   `json:"last_renewal,omitempty"`
	Queues      []queueStats `json:"queues"`
}

// typeStats is a limit of Config.TypeConcurrency.
type typeStats struct {
	Pattern string `json:"pattern"`
	Max     int    `json:"max"`
	Running int    `json:"running"`
	Waiting int    `json:"waiting"` // leased jobs that wait for one of these handlers to return
}

type queueStats struct {
	Name          string            `json:"name"`
	Weight        int               `json:"weight"`
	Paused        bool              `json:"paused"`
	Jobs          map[State]int64   `json:"jobs"`           // in each state, without suppressed ones
	Suppressed    int64             `json:"suppressed"`     // suppressed dead jobs
	OldestSeconds map[State]float64 `json:"oldest_seconds"` // see broker.QueueInfo.Age; zero without jobs
}

func (s *Server) serveStats(w http.ResponseWriter, r *http.Request) {
	answer := s.stats()
	queues, err := s.queueStats(r.Context())
	answer.Queues = queues
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		answer.Error = err.Error()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(answer) // it fails only if the client has gone
}

// stats returns what the server knows without the store.
func (s *Server) stats() stats {
	ready, now := s.Ready(), s.engine.Stats()
	st := stats{
		Ready: ready == nil, Program: s.cfg.Program, Worker: now.Worker, Draining: now.Draining,
		Concurrency: s.cfg.Concurrency, Running: now.Running, Stuck: now.Stuck, Prefetched: now.Prefetched,
		LastClaim: unlessZero(now.LastClaim), LastRenewal: unlessZero(now.LastRenewal),
	}
	if ready != nil {
		st.Reason = ready.Error()
	}
	for _, l := range s.TypeLimits() {
		st.Types = append(st.Types, typeStats(l))
	}
	return st
}

func (s *Server) queueStats(ctx context.Context) ([]queueStats, error) {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	reply, err := s.broker.Queues(ctx, broker.QueuesRequest{Names: s.engine.Queues()})
	known := make(map[string]broker.QueueInfo, len(reply.Queues))
	for _, q := range reply.Queues {
		known[q.Name] = q
	}
	answers := make([]queueStats, 0, len(s.engine.Queues()))
	for _, name := range s.engine.Queues() {
		q, ok := known[name]
		if !ok && err != nil {
			continue // its counts are unknown
		}
		a := queueStats{Name: name, Weight: s.cfg.Queues[name], Paused: q.Policy.Paused, Suppressed: q.Suppressed,
			Jobs: make(map[State]int64), OldestSeconds: make(map[State]float64)}
		for _, state := range broker.States() {
			a.Jobs[state] = q.Listed(state)
			a.OldestSeconds[state] = q.Age(state, reply.Now).Seconds()
		}
		answers = append(answers, a)
	}
	return answers, err
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(0)
	return &t
}
