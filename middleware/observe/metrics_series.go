package observe

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed81422ce9/jobs/broker"
)

// other is the value of a label that stands for all values beyond its bound.
const other = "other"

// maxSeries bounds the combinations of labels of jobs. Beyond it, new combinations are counted with
// other as their type and key.
const maxSeries = 1000

// labelIdle is the least time between two sweeps, which happen when a bound has no
// room for a new label value. A sweep forgets the values that were not used since the sweep before it.
// The meter provider keeps the series of forgotten values, so sweeps must be rare.
const labelIdle = 24 * time.Hour

// maxClasses bounds the classes of errors, since the application chooses them.
const maxClasses = 30

// seriesKey is a combination of labels of a job.
type seriesKey struct {
	queue, typ, key string
	priority        broker.Priority
}

// series holds the options for one combination of labels. They are made once, so
// that a measurement allocates nothing.
type series struct {
	attributes []attribute.KeyValue
	add        []metric.AddOption
	record     []metric.RecordOption
	observe    []metric.ObserveOption
	running    atomic.Int64
	used       atomic.Bool // since the last sweep

	mu   sync.RWMutex
	more map[labelValue][]metric.AddOption // with one more label
}

type labelValue struct{ label, value string }

func newSeries(attributes ...attribute.KeyValue) *series {
	option := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return &series{
		attributes: attributes,
		add:        []metric.AddOption{option},
		record:     []metric.RecordOption{option},
		observe:    []metric.ObserveOption{option},
		more:       make(map[labelValue][]metric.AddOption),
	}
}

// with returns the options of the series with one more label. The label must have
// few values, since each is kept.
func (s *series) with(label, value string) []metric.AddOption {
	key := labelValue{label, value}
	s.mu.RLock()
	options, ok := s.more[key]
	s.mu.RUnlock()
	if ok {
		return options
	}
	all := append(s.attributes[:len(s.attributes):len(s.attributes)], attribute.String(label, value))
	options = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(all...))}
	s.mu.Lock()
	s.more[key] = options
	s.mu.Unlock()
	return options
}

// registry finds the series of a job. Jobs of known labels are looked up
// without a lock.
type registry struct {
	keyed bool
	known atomic.Pointer[map[seriesKey]*series] // copied when it grows

	mu                           sync.Mutex
	queues, types, keys, classes labelBound
	swept                        time.Time
}

func newRegistry(queues, types, keys int) *registry {
	r := &registry{
		keyed:  keys > 0,
		swept:  time.Now(),
		queues: newLabelBound(queues), types: newLabelBound(types), keys: newLabelBound(keys), classes: newLabelBound(maxClasses),
	}
	r.known.Store(&map[seriesKey]*series{})
	return r
}

// of returns the series of a job.
func (r *registry) of(queue string, b *broker.Body) *series {
	key := seriesKey{queue: queue, typ: b.Type, priority: b.Priority}
	if r.keyed {
		key.key = b.Key
	}
	s := (*r.known.Load())[key]
	if s == nil {
		s = r.enter(key)
	}
	if !s.used.Load() { // storing each time would move the cache line between processors
		s.used.Store(true)
	}
	return s
}

// next returns the series of a job of a batch, given last, the series of the job
// before it. Most often they are the same, and comparing costs less than a look-up.
func (r *registry) next(last *series, before, job *broker.Job) *series {
	if last != nil && before.Queue == job.Queue && before.Type == job.Type && before.Priority == job.Priority && (!r.keyed ||
		before.Key == job.Key) {
		return last
	}
	return r.of(job.Queue, &job.Body)
}

// enter adds and returns the series of labels seen for the first time. Beyond the
// bounds it replaces label values by other.
func (r *registry) enter(key seriesKey) *series {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues.lacks(key.queue) || r.types.lacks(key.typ) || key.key != "" && r.keys.lacks(key.key) || len(*r.known.Load()) >= maxSeries {
		r.forgetIdle()
	}
	key.queue, key.typ = r.queues.limit(key.queue), r.types.limit(key.typ)
	if r.keyed && key.key != "" {
		key.key = r.keys.limit(key.key)
	}
	known := *r.known.Load()
	if s := known[key]; s != nil {
		return s
	}
	if len(known) >= maxSeries {
		if key.typ = other; key.key != "" {
			key.key = other
		}
		if s := known[key]; s != nil {
			return s
		}
	}
	attributes := []attribute.KeyValue{attribute.String(labelQueue, key.queue), attribute.String(labelType, key.typ),
		attribute.String(labelPriority, priorityName(key.priority))}
	if r.keyed {
		attributes = append(attributes, attribute.String(labelKey, key.key))
	}
	s := newSeries(attributes...)
	known = maps.Clone(known)
	known[key] = s
	r.known.Store(&known)
	return s
}

// forgetIdle makes room in all bounds, once a day at most.
func (r *registry) forgetIdle() {
	now := time.Now()
	if now.Sub(r.swept) < labelIdle {
		return
	}
	r.swept = now
	kept := make(map[seriesKey]*series)
	for key, s := range *r.known.Load() {
		if s.used.Swap(false) || s.running.Load() > 0 {
			kept[key] = s
			r.queues.use(key.queue)
			r.types.use(key.typ)
			r.keys.use(key.key)
		}
	}
	r.known.Store(&kept)
	for _, bound := range []*labelBound{&r.queues, &r.types, &r.keys, &r.classes} {
		bound.forgetIdle()
	}
}

// class returns the label for the class of an error.
func (r *registry) class(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.classes.lacks(name) {
		r.forgetIdle()
	}
	return r.classes.limit(name)
}

// queue returns the label for the name of a queue.
func (r *registry) queue(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues.lacks(name) {
		r.forgetIdle()
	}
	return r.queues.limit(name)
}

// each calls f for every series.
func (r *registry) each(f func(*series)) {
	for _, s := range *r.known.Load() {
		f(s)
	}
}

// clean replaces what is not UTF-8 in a text that another program may have stored, or that an error has: one
// such label makes Prometheus refuse a whole scrape, and one such text makes OTLP drop what it comes with.
func clean(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// labelBound lets the first max values through and replaces the rest by other,
// until a sweep forgets idle values.
type labelBound struct {
	max  int
	seen map[string]bool // value → whether it was used since the last sweep
}

func newLabelBound(max int) labelBound { return labelBound{max: max, seen: make(map[string]bool)} }

func (l *labelBound) limit(value string) string {
	value = clean(value)
	if l.lacks(value) {
		return other
	}
	l.seen[value] = true
	return value
}

// lacks reports whether there is no room for a value.
func (l *labelBound) lacks(value string) bool {
	_, ok := l.seen[value]
	return !ok && len(l.seen) >= l.max
}

// use marks a known value as used.
func (l *labelBound) use(value string) {
	if _, ok := l.seen[value]; ok {
		l.seen[value] = true
	}
}

func (l *labelBound) forgetIdle() {
	for value, used := range l.seen {
		if !used {
			delete(l.seen, value)
		} else {
			l.seen[value] = false
		}
	}
}

// priorityName returns the label for a priority.
func priorityName(p broker.Priority) string {
	switch p {
	case broker.PriorityUrgent:
		return "urgent"
	case broker.PriorityLow:
		return "low"
	case broker.PriorityBulk:
		return "bulk"
	}
	return "normal"
}
