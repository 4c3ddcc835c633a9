package schedule

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Definition is a schedule as a program defines it.
type Definition struct {
	ID      string     // 1 to 200 bytes, unique in the store
	Spec    Spec       // when it ticks
	Task    *jobs.Task // what each tick enqueues, with its options
	Options []Option

	err error // the arguments of the task could not be encoded
}

// Define returns a schedule whose ticks enqueue tasks of a typed definition, each
// with these arguments. If they cannot be encoded, or the definition has middleware
// of its own (EnqueueWith), Put and Sync return ErrInvalid.
func Define[T any](id string, spec Spec, of jobs.Definition[T], args T, opts ...Option) Definition {
	d := Definition{ID: id, Spec: spec, Options: opts}
	d.Task, d.err = of.Task(args)
	return d
}

// Put creates or updates the schedule; see Schedules.Put.
func (d Definition) Put(ctx context.Context, s *Schedules) (Change, error) { return s.put(ctx, d) }

// Option changes a setting of a schedule.
type Option interface{ apply(*settings) }

type settings struct {
	record
	job    []jobs.Option
	paused bool
}

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// Misfire says what becomes of ticks that did not run in time, because no server
// was up or the store could not be reached. When a server runs the schedule
// again, it runs the newest Max of the ticks that are due and not older than
// Window, oldest first. The others are counted, as too late or too many.
type Misfire struct {
	Max    int           // 1 to 1000
	Window time.Duration // at least 1 s; zero means any age
}

// Policies for misfires. RunUpTo makes others.
var (
	MisfireOne  = Misfire{Max: 1}                      // runs the newest, however late: the default
	MisfireSkip = Misfire{Max: 1, Window: time.Minute} // runs the newest, if it is at most a minute late
)

// RunUpTo runs up to max missed ticks that are not older than window.
func RunUpTo(max int, window time.Duration) Misfire { return Misfire{Max: max, Window: window} }

// WithMisfire sets what becomes of missed ticks. The default is MisfireOne.
func WithMisfire(m Misfire) Option { return optionFunc(func(s *settings) { s.Misfire = m }) }

// Overlap says what becomes of a tick while the previous tick's job is queued,
// runs, or waits for a retry.
type Overlap string

// Policies for overlaps.
const (
	OverlapAllow  Overlap = "allow"  // the jobs run side by side: the default
	OverlapSkip   Overlap = "skip"   // the tick is dropped, and counted as overlapped
	OverlapBuffer Overlap = "buffer" // at most one tick waits for the end; later ones are dropped
	OverlapCancel Overlap = "cancel" // the previous job is cancelled; if it runs, its context ends
)

// WithOverlap sets what becomes of a tick whose predecessor has not ended. The default is OverlapAllow.
// A waiting tick starts at most 30 seconds after its predecessor has ended.
func WithOverlap(o Overlap) Option { return optionFunc(func(s *settings) { s.Overlap = o }) }

// WithJitter delays ticks by up to d, so that schedules with the same times do not all start at once.
// Each schedule has one delay, derived from its ID, so its ticks stay equally far apart. The delay is
// always shorter than the time until the next tick. IDs and headers of jobs keep the nominal time. The
// default is zero.
func WithJitter(d time.Duration) Option {
	return optionFunc(func(s *settings) { s.Jitter = reserved.Duration(d) })
}

// WithStart sets the time before which there is no tick and from which intervals
// are counted. By default, ticks begin when the schedule is put, and Every says
// how intervals are counted.
func WithStart(t time.Time) Option {
	return optionFunc(func(s *settings) { s.Start = reserved.When(t) })
}

// WithEnd sets the time after which there is no tick. The default is none. The
// schedule stays, and does nothing, until it is deleted.
func WithEnd(t time.Time) Option { return optionFunc(func(s *settings) { s.End = reserved.When(t) }) }

// WithPaused creates a schedule paused, until Resume; see Schedules.Pause. It has
// no effect on a schedule that exists. By default a new schedule ticks. by must be a
// name of 1 to 255 bytes.
func WithPaused(by string) Option {
	return optionFunc(func(s *settings) { s.Paused, s.paused = by, true })
}

// WithExpiry gives each tick's job a deadline of d after its nominal time; see
// jobs.WithDeadline. It must be at least 1 s, and longer than the jitter. The default is none.
func WithExpiry(d time.Duration) Option {
	return optionFunc(func(s *settings) { s.Expiry = reserved.Duration(d) })
}

// WithJob sets enqueue options of each tick's job, which override those of the
// task. Options that set an ID, a delay, a time or a deadline are refused: the
// schedule sets these. Defaults of clients do not apply.
func WithJob(opts ...jobs.Option) Option {
	return optionFunc(func(s *settings) { s.job = append(s.job, opts...) })
}
