package jobstest

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/labels"
)

// Options are options of package jobs for the helpers of this package; see With.
type Options []jobs.Option

// With takes the options of a job: With(jobs.WithQueue("mail"),
// jobs.WithDelay(time.Hour)). As a Match it wants a job that was enqueued with each of
// them, or with equal defaults; other fields are not compared. For Run, NewJob and
// CheckIdempotent they are the options of the job.
func With(opts ...jobs.Option) Options { return opts }

// noise makes two drafts that differ in all fields. The given options are then applied to both drafts.
// They have set the fields in which the drafts are equal after that.
var noise = [2][]jobs.Option{
	noiseOf("a", 1, jobs.WithUniqueUntilDone(time.Hour), jobs.WithDelay(time.Hour)),
	noiseOf("b", 2, jobs.WithUniqueUntilStarted(2*time.Hour), jobs.WithUniqueReplace(), jobs.WithDelay(2*time.Hour)),
}

func noiseOf(s string, n int, more ...jobs.Option) []jobs.Option {
	d := time.Duration(n) * time.Hour
	return append(more, jobs.WithQueue(s), jobs.WithPriority(jobs.Priority(n)), jobs.WithDeadline(time.Unix(int64(n), 0)),
		jobs.WithTimeout(d), jobs.WithMaxRetries(n), jobs.WithBackoff(jobs.Backoff{Kind: jobs.BackoffConstant, Base: d}),
		jobs.WithCrashBudget(n), jobs.WithRetention(d), jobs.WithID(s), jobs.WithPartitionKey(s), jobs.WithCorrelationID(s),
		jobs.WithIdempotencyKey(s), jobs.WithTypeVersion(n), jobs.WithSource(s), jobs.WithPayloadRef(s), jobs.WithUniqueKey(s))
}

func (opts Options) criteria(def definition) ([]criterion, error) {
	var draft [2]broker.NewJob
	for i := range draft {
		all := append(append([]jobs.Option(nil), noise[i]...), opts...)
		var err error
		if draft[i], err = jobs.NewTask(def.typ, nil, all...).Draft(); err != nil {
			return nil, fmt.Errorf("With: %w", err)
		}
	}
	var set []criterion
	for _, f := range fields {
		if w := f.wanted(&draft[0]); w != nil && reflect.DeepEqual(w, f.wanted(&draft[1])) {
			set = append(set, f.criterion(w))
		}
	}
	for key, value := range draft[0].Body.Headers {
		set = append(set, header(key, value))
	}
	if len(set) == 0 && len(opts) > 0 {
		return nil, errors.New("With was given options that set nothing")
	}
	return set, nil
}

// field is one thing that options set.
type field struct {
	name   string
	wanted func(*broker.NewJob) any // returns nil if it is not set
	got    func(*candidate) any     // comparable with what wanted returns
}

// ofBody returns a field of the body, which a job keeps as it was enqueued.
func ofBody(name string, of func(*broker.Body) any) field {
	return field{name, func(n *broker.NewJob) any { return of(&n.Body) }, func(c *candidate) any { return of(&c.job.Body) }}
}

var fields = []field{
	{"queue", func(n *broker.NewJob) any { return baseOf(n.Queue) }, func(c *candidate) any { return baseOf(c.job.Queue) }},
	{"labels", func(n *broker.NewJob) any { return labelsOf(n.Queue) }, func(c *candidate) any { return labelsOf(c.job.Queue) }},
	{"id", func(n *broker.NewJob) any { return n.ID }, func(c *candidate) any { return c.job.ID }},
	{"due", func(n *broker.NewJob) any { return when{n.Delay, n.RunAt} }, func(c *candidate) any {
		if c.asked == nil && !c.job.RunAt.IsZero() { // another broker keeps only the time
			return when{c.job.RunAt.Sub(c.job.CreatedAt), c.job.RunAt}
		}
		delay, at := c.due()
		return when{delay, at}
	}},
	ofBody("priority", func(b *broker.Body) any { return b.Priority }),
	ofBody("deadline", func(b *broker.Body) any { return broker.FromMicros(broker.Micros(b.Deadline)) }),
	ofBody("timeout", func(b *broker.Body) any { return b.Timeout }),
	ofBody("max retries", func(b *broker.Body) any { return b.MaxRetries }),
	ofBody("backoff", func(b *broker.Body) any { return b.Backoff }),
	ofBody("crash budget", func(b *broker.Body) any { return b.CrashBudget }),
	ofBody("retention", func(b *broker.Body) any { return b.Retention }),
	ofBody("key", func(b *broker.Body) any { return b.Key }),
	ofBody("correlation ID", func(b *broker.Body) any { return b.CorrelationID }),
	ofBody("idempotency key", func(b *broker.Body) any { return b.IdempotencyKey }),
	ofBody("type version", func(b *broker.Body) any { return b.TypeVersion }),
	ofBody("source", func(b *broker.Body) any { return b.Source }),
	ofBody("payload ref", func(b *broker.Body) any { return b.PayloadRef }),
	ofBody("unique key", func(b *broker.Body) any { return b.Unique.Key }),
	ofBody("unique", func(b *broker.Body) any { return held{b.Unique.Key != "", b.Unique.Mode, b.Unique.TTL} }),
	ofBody("unique conflict", func(b *broker.Body) any { return met{b.Unique.Conflict, b.Unique.Latest} }),
}

// baseOf returns the queue that WithQueue names; labelsOf returns the labels that
// WithLabels adds to it, or nil.
func baseOf(queue string) string {
	base, _ := labels.Split(queue)
	return base
}

func labelsOf(queue string) any {
	if _, all := labels.Split(queue); len(all) > 0 {
		return all
	}
	return nil
}

func (f field) criterion(want any) criterion {
	shown := show(reflect.ValueOf(want))
	if s, ok := want.(fmt.Stringer); ok {
		shown = s.String()
	}
	return criterion{f.name, shown, func(c *candidate) []difference {
		got := f.got(c)
		w, isTime := want.(when)
		if isTime && w.is(got.(when)) || !isTime && reflect.DeepEqual(want, got) {
			return nil
		}
		d := difference{f.name, shown, show(reflect.ValueOf(got))}
		if s, ok := got.(fmt.Stringer); ok {
			d.got = s.String()
		}
		return []difference{d}
	}}
}

func header(key, value string) criterion {
	name := fmt.Sprintf("header %q", key)
	return criterion{name, fmt.Sprintf("%q", value), func(c *candidate) []difference {
		if got, ok := c.job.Headers[key]; !ok {
			return []difference{{name, fmt.Sprintf("%q", value), "none"}}
		} else if got != value {
			return []difference{{name, fmt.Sprintf("%q", value), fmt.Sprintf("%q", got)}}
		}
		return nil
	}}
}

// when is WithDelay or WithRunAt. For a job in another broker both are set, and either
// may match.
type when struct {
	delay time.Duration
	at    time.Time
}

func (w when) String() string {
	switch {
	case w.delay > 0:
		return fmt.Sprintf("%v after the enqueue", w.delay)
	case !w.at.IsZero():
		return w.at.Format(time.RFC3339Nano)
	}
	return "at once"
}

// is compares times as stores keep them: in microseconds, rounded up.
func (w when) is(got when) bool {
	switch {
	case w.delay > 0:
		return broker.DurationMicros(w.delay) == broker.DurationMicros(got.delay)
	case !w.at.IsZero():
		return broker.Micros(w.at) == broker.Micros(got.at)
	}
	return got.delay == 0 && got.at.IsZero()
}

// met says what happens to a job whose unique key is held.
type met struct {
	conflict broker.UniqueConflict
	latest   time.Duration
}

func (m met) String() string {
	words := [...]string{"refuse", "replace", "debounce", "keep the last"}
	if int(m.conflict) >= len(words) {
		return fmt.Sprint(m.conflict)
	}
	if m.latest > 0 {
		return fmt.Sprintf("%s, at the latest after %v", words[m.conflict], m.latest)
	}
	return words[m.conflict]
}

// held says how long a job holds its unique key.
type held struct {
	key  bool // it has one
	mode broker.UniqueMode
	ttl  time.Duration
}

func (h held) String() string {
	words := [...]string{"until done", "until started", "for a window"}
	if !h.key || int(h.mode) >= len(words) {
		return "no"
	}
	if h.ttl > 0 {
		return fmt.Sprintf("%s, at most %v", words[h.mode], h.ttl)
	}
	return words[h.mode]
}
