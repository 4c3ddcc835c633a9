package main

import (
	"encoding/json"
	"time"

	"github.com/seed81422ce9/jobs/schedule"
)

// scheduleView is a schedule as -o json writes it. Its names are a contract: fields are
// added, none is renamed. Durations are in seconds.
type scheduleView struct {
	ID            string          `json:"id"`
	Owner         string          `json:"owner"`
	Spec          string          `json:"spec"`
	Zone          string          `json:"zone,omitempty"`
	Status        string          `json:"status"`
	Error         string          `json:"error,omitempty"`
	PausedAt      *time.Time      `json:"paused_at,omitempty"`
	PausedBy      string          `json:"paused_by,omitempty"`
	NextAt        *time.Time      `json:"next_at,omitempty"`
	LastAt        *time.Time      `json:"last_at,omitempty"`
	LastJob       string          `json:"last_job,omitempty"`
	LastQueue     string          `json:"last_queue,omitempty"`
	BufferedAt    *time.Time      `json:"buffered_at,omitempty"`
	Start         *time.Time      `json:"start,omitempty"`
	End           *time.Time      `json:"end,omitempty"`
	Jitter        float64         `json:"jitter_seconds,omitempty"`
	Expiry        float64         `json:"expiry_seconds,omitempty"`
	MisfireMax    int             `json:"misfire_max"`
	MisfireWindow float64         `json:"misfire_window_seconds,omitempty"`
	Overlap       string          `json:"overlap"`
	Missed        int64           `json:"missed"`
	Counts        schedule.Counts `json:"counts"`
	Queue         string          `json:"queue"`
	Type          string          `json:"type"`
	CreatedAt     *time.Time      `json:"created_at,omitempty"`
	PayloadBytes  int             `json:"payload_bytes"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 string          `json:"payload_base64,omitempty"`
}

func viewSchedule(i *schedule.Info, payload bool) scheduleView {
	v := scheduleView{ID: i.ID, Owner: i.Owner, Spec: i.Spec, Zone: i.Zone, Status: string(i.Status), Error: i.Error,
		NextAt: at(i.Next), LastAt: at(i.Last), LastJob: i.LastJob, LastQueue: i.LastQueue, BufferedAt: at(i.Buffered),
		Start: at(i.Start), End: at(i.End),
		Jitter: i.Jitter.Seconds(), Expiry: i.Expiry.Seconds(), MisfireMax: i.Misfire.Max, MisfireWindow: i.Misfire.Window.Seconds(),
		Overlap: string(i.Overlap), Missed: i.Counts.Missed(), Counts: i.Counts, Queue: i.Queue, Type: i.Type, CreatedAt: at(i.Created),
		PayloadBytes: len(i.Payload)}
	if i.Paused != nil {
		v.PausedAt, v.PausedBy = at(i.Paused.At), i.Paused.By
	}
	if payload {
		v.Payload, v.PayloadBase64 = encoded(i.Payload)
	}
	return v
}
