package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

var regions = []string{"north", "south", "west"}

// nightly is the schedule of the report.
var nightly = schedule.Define("nightly-report", schedule.Cron("0 3 * * *", "Europe/Berlin"), ReportNight, struct{}{},
	schedule.WithOverlap(schedule.OverlapSkip))

// begin report

// reportNight starts the workflow of a night: the regions side by side, then
// the sum. Its name is that of the job, so that a second run starts no second
// workflow.
func (s *Shop) reportNight(ctx context.Context, _ struct{}, job *jobs.Job) error {
	var parts []workflow.Part
	for _, name := range regions {
		task, err := ReportRegion.Task(Region{name})
		if err != nil {
			return err
		}
		parts = append(parts, workflow.Node{Name: name, Task: task})
	}
	sum, err := ReportSum.Task(struct{}{})
	if err != nil {
		return err
	}
	wf := workflow.New(job.ID()).Add(workflow.Chord(workflow.Node{Name: "sum", Task: sum}, parts...))
	if err := workflow.Start(ctx, s.Client, wf); !errors.Is(err, jobs.ErrDuplicate) {
		return err
	}
	return nil
}

// end report

func (s *Shop) reportRegion(ctx context.Context, r Region, _ *jobs.Job) error {
	cents, err := s.Orders.Sold(ctx, r.Name)
	if err != nil {
		return err
	}
	return workflow.SetResult(ctx, cents)
}

func (s *Shop) reportSum(ctx context.Context, _ struct{}, _ *jobs.Job) error {
	sold, err := workflow.Results[int64](ctx)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, cents := range sold {
		total += cents
	}
	key := "report:" + workflow.Of(ctx).ID()
	return s.Outside.SendMail(ctx, key, "owner", fmt.Sprintf("%d regions sold %d.%02d", len(sold), total/100, total%100))
}
