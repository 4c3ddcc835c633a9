package integration

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/schedule"
)

// runTick is the handler of ticks' jobs. It prints each run.
func runTick(_ context.Context, job *jobs.Job) error {
	k, ok := schedule.TickOf(job)
	if !ok {
		return fmt.Errorf("%s is of no tick", job.ID())
	}
	late := time.Since(k.At)
	_, err := os.Stdout.WriteString(tickRan{job.ID(), job.CreatedAt().UnixMicro(), late}.line())
	return err
}

// tickRan is one run of a job. created distinguishes two jobs with the same ID.
type tickRan struct {
	id      string
	created int64 // microseconds
	late    time.Duration
}

func (r tickRan) line() string { return fmt.Sprintf("ran %s %d %d\n", r.id, r.created, r.late) }

func parseRan(line string) (r tickRan, ok bool) {
	f := strings.Fields(line)
	if len(f) != 4 || f[0] != "ran" {
		return r, false
	}
	created, err := strconv.ParseInt(f[2], 10, 64)
	late, err2 := strconv.ParseInt(f[3], 10, 64)
	return tickRan{f[1], created, time.Duration(late)}, err == nil && err2 == nil
}
