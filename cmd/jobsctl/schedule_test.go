package main

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/schedule"
)

// Doctor finds and repairs schedules that do not tick, as well as errors in the store.
func TestDoctor_SchedulesThatDoNotTick(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		c.has(c.run(3, "doctor", "--queue", "@schedules"), "not found")
		b, err := c.open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		s := schedule.New(b, "shop")
		if _, err := s.Put(t.Context(), "nightly", schedule.Cron("0 3 29 2 *", ""), jobs.NewTask("report", nil)); err != nil {
			t.Fatal(err)
		}
		c.has(c.run(0, "doctor", "--queue", "@schedules"),
			`warning: queue-not-served in queue @schedules \(1\)\n  1 job to run: no live worker serves the queue @schedules`, "with its extension")

		dead := broker.NewJob{Queue: schedule.Queue, ID: "broken", Body: broker.Body{Type: "schedule", Key: "schedule", Payload: []byte("{"),
			Priority: broker.PriorityNormal}, Restore: &broker.Restored{State: broker.StateDead, CreatedAt: time.Now().Add(-time.Hour)}}
		if receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{dead}}); err != nil || receipts[0].Err != nil {
			t.Fatal(err, receipts)
		}
		c.has(c.output(8, "doctor", "--queue", "@schedules"), `error: schedule-stopped in queue @schedules \(1\)\n  broken: `,
			"--fix: a dead job is revived")
		c.has(c.output(8, "doctor", "--json"), `"code":"schedule-stopped","queue":"@schedules","id":"broken"`)
		c.has(c.output(0, "doctor", "--queue", "@schedules", "--fix", "--yes"), `Repaired 1: a dead job is revived`)
		c.has(c.output(8, "doctor", "--queue", "@schedules"), `error: schedule-unreadable in queue @schedules \(1\)\n  broken: `)
		c.has(c.run(0, "schedule", "delete", "broken", "--yes"), "broken is deleted")
		c.has(c.run(0, "schedule", "list"), `(?m)^nightly +0 3 29 2 \* +UTC +waiting `)
	})
}
