package integration

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/schedule"
)

// The defaults take a few seconds. The long form is
//
//	go test ./internal/integration -run 'Schedule_ServersAreKilled/redis' -v -timeout 30m \
//		-ticks 10m -tick-schedules 10000 -tick-every 2m -fleet-kills 2s -fleet-lease 5s
var (
	ticksFor      = flag.Duration("ticks", 8*time.Second, "for how long schedules tick while servers are killed")
	tickSchedules = flag.Int("tick-schedules", 80, "how many schedules there are")
	tickEvery     = flag.Duration("tick-every", 4*time.Second, "how often each of them ticks")
)

// Five server processes run schedules. They are killed at random and replaced, and
// some answers of the store are lost. Every nominal tick of every schedule becomes
// exactly one job, which runs at least once.
func TestSchedule_ServersAreKilled(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		b, err := backends.Open(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		schedules := schedule.New(b, "test")

		// Usually all schedules are put before the first tick.
		first := time.Now().Add(2*time.Second + time.Duration(*tickSchedules)*10*time.Millisecond).Truncate(time.Second)
		end := first.Add(*ticksFor)
		nominal := putTicking(t, schedules, first, end)

		c := &collector{jobs: make(map[string][]int64)}
		c.fleet = startFleet(t, s.url, roleTicks, c.hear)
		kills := c.killUntil(end)
		all, counted := []schedule.Info(nil), int64(0)
		for late := time.Now().Add(fleetCalm + *ticksFor/10); time.Now().Before(late); time.Sleep(100 * time.Millisecond) {
			if c.distinct() < len(nominal) {
				continue
			}
			if all, err = schedules.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			if counted = enqueued(all); counted >= int64(len(nominal)) {
				break
			}
		}
		time.Sleep(2 * *fleetLease) // for runs that must not happen
		c.killAll()
		c.check(nominal)
		if len(all) != *tickSchedules || counted != int64(len(nominal)) {
			t.Errorf("%d schedules have counted %d jobs, want %d and %d", len(all), counted, *tickSchedules, len(nominal))
		}
		for _, info := range all {
			if info.Status != schedule.StatusEnded || info.Counts.Missed() != 0 {
				t.Fatalf("afterwards %s is %s with the counts %+v, error %q", info.ID, info.Status, info.Counts, info.Error)
			}
		}
		c.report(kills)
	})
}

func enqueued(all []schedule.Info) (sum int64) {
	for _, info := range all {
		sum += info.Counts.Enqueued
	}
	return sum
}

// longestPut is how long putting one schedule may take.
const longestPut = 1500 * time.Millisecond

// putTicking puts the schedules, whose ticks are spread over the interval, and
// returns the IDs of all their jobs. On a slow machine schedules begin later.
func putTicking(t *testing.T, schedules *schedule.Schedules, first, end time.Time) map[string]bool {
	t.Helper()
	nominal := make(map[string]bool)
	task := jobs.NewTask("tick", nil, jobs.WithQueue(queue))
	apart := (*tickEvery / time.Duration(*tickSchedules)).Truncate(time.Microsecond)
	todo := make(chan int)
	var mu sync.Mutex
	var putting sync.WaitGroup
	for range 8 {
		putting.Go(func() {
			for i := range todo {
				id, start := fmt.Sprintf("s%05d", i), first.Add(time.Duration(i)*apart)
				if soonest := time.Now().Add(longestPut).Truncate(time.Microsecond); start.Before(soonest) {
					start = soonest
				}
				_, err := schedules.Put(t.Context(), id, schedule.Every(*tickEvery), task, schedule.WithStart(start), schedule.WithEnd(end),
					schedule.WithMisfire(schedule.RunUpTo(1000, 0)))
				if late := time.Since(start); err != nil || late > 0 {
					t.Errorf("putting %s: %v, %v before its first tick", id, err, -late)
				}
				mu.Lock()
				for at := start; !at.After(end); at = at.Add(*tickEvery) {
					nominal[id+"@"+at.UTC().Format(time.RFC3339Nano)] = true
				}
				mu.Unlock()
			}
		})
	}
	for i := range *tickSchedules {
		todo <- i
	}
	close(todo)
	putting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return nominal
}

// collector records the runs of ticks.
type collector struct {
	*fleet
	jobs map[string][]int64 // by ID: when jobs with that ID were created
	runs int
	late []time.Duration
}

func (c *collector) hear(line string) bool {
	r, ok := parseRan(line)
	if !ok {
		return false
	}
	c.runs++
	if !slices.Contains(c.jobs[r.id], r.created) {
		c.jobs[r.id] = append(c.jobs[r.id], r.created)
		c.late = append(c.late, r.late)
	}
	return true
}

func (c *collector) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.jobs)
}

// check compares what ran with the nominal ticks.
func (c *collector) check(nominal map[string]bool) {
	c.t.Helper()
	missing, twice, wrong := 0, 0, 0
	say := func(n *int, format string, args ...any) {
		if *n++; *n <= 5 {
			c.t.Errorf(format, args...)
		}
	}
	for id := range nominal {
		if len(c.jobs[id]) == 0 {
			say(&missing, "the tick %s never ran", id)
		}
	}
	for id, created := range c.jobs {
		if len(created) > 1 {
			say(&twice, "the tick %s became %d jobs, created at %v", id, len(created), created)
		}
		if !nominal[id] {
			say(&wrong, "%s is of no nominal tick", id)
		}
	}
	if missing+twice+wrong > 0 {
		c.t.Errorf("of %d ticks %d never ran and %d became several jobs; %d jobs are of no tick", len(nominal), missing, twice, wrong)
	}
	c.showLogs()
}

// report logs the figures of the run.
func (c *collector) report(kills int) {
	if len(c.late) == 0 {
		return
	}
	slices.Sort(c.late)
	at := func(share float64) time.Duration {
		return c.late[int(share*float64(len(c.late)-1))].Round(time.Millisecond)
	}
	c.t.Logf("%d schedules, %d servers, %d kills, %v: %d ticks, %d runs; they began %v (median), %v (99 %%), at most %v after their ticks",
		*tickSchedules, fleetSize, kills, *ticksFor, len(c.jobs), c.runs, at(.5), at(.99), at(1))
}
