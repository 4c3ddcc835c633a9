package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

const queue = "reports"

// Report asks for the report of a year.
type Report struct {
	Year int `json:"year"`
}

// Totals is the result of a Report.
type Totals struct {
	Orders int `json:"orders"`
}

// MakeReport is the task. Its record is kept for an hour after it has ended, so that
// clients can fetch the result.
var MakeReport = jobs.Define[Report]("report:make", jobs.WithQueue(queue), jobs.WithRetention(time.Hour))

// Handlers returns the handlers of this program.
func Handlers() *jobs.ServeMux {
	mux := jobs.NewServeMux()
	jobs.Handle(mux, MakeReport, func(ctx context.Context, r Report, job *jobs.Job) error {
		total := 0
		for month := range 12 {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			total += r.Year % (month + 1) // a query, in a real program
			job.SetProgress(int64(month+1), 12, "")
		}
		return jobs.SetResult(job, Totals{Orders: total})
	})
	return mux
}

// begin api

// API is the HTTP API. If a request is sent twice with the same header Idempotency-Key, it becomes one
// job.
func API(client *jobs.Client, b broker.Broker, health http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", health)
	mux.HandleFunc("POST /reports", func(w http.ResponseWriter, r *http.Request) {
		var report Report
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&report); err != nil || report.Year < 2000 {
			http.Error(w, "send a year from 2000 on", http.StatusBadRequest)
			return
		}
		var opts []jobs.Option
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			opts = append(opts, jobs.WithID(key))
		}
		info, err := MakeReport.Enqueue(r.Context(), client, report, opts...)
		switch {
		case errors.Is(err, jobs.ErrDuplicate): // it was accepted before; info names it
		case errors.Is(err, jobs.ErrInvalid):
			http.Error(w, "the Idempotency-Key is too long", http.StatusBadRequest)
			return
		case err != nil: // the store is unavailable, or its answer was lost: the client sends the request again
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Location", "/reports/"+info.ID)
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("GET /reports/{id}", func(w http.ResponseWriter, r *http.Request) {
		job, err := inspect.New(b).Job(r.Context(), queue, r.PathValue("id"))
		switch {
		case errors.Is(err, jobs.ErrNotFound):
			http.NotFound(w, r)
			return
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		answer := struct {
			State  string          `json:"state"`
			Done   int64           `json:"done"`
			Of     int64           `json:"of"`
			Result json.RawMessage `json:"result,omitempty"`
		}{State: job.State.String(), Result: job.Result}
		if job.Kept != nil {
			answer.Done, answer.Of = job.Kept.Progress.Done, job.Kept.Progress.Total
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	return mux
}

// end api
