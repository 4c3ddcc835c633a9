package observe

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// maxLinks bounds the links of one span, at the number that OpenTelemetry's SDK
// keeps by default.
const maxLinks = 128

// maxSpanKinds bounds the kinds that are cached for each operation; further ones
// are made at each use.
const maxSpanKinds = 1000

// operation is an operation of the messaging conventions.
type operation int

const (
	opCreate operation = iota
	opSend
	opSendCreated // sends jobs that have a creation context of their own
	opReceive
	opProcess
	opSettle
)

var operations = [...]struct {
	typ  attribute.KeyValue
	kind trace.SpanKind
}{
	opCreate:      {semconv.MessagingOperationTypeCreate, trace.SpanKindProducer},
	opSend:        {semconv.MessagingOperationTypeSend, trace.SpanKindProducer},
	opSendCreated: {semconv.MessagingOperationTypeSend, trace.SpanKindClient},
	opReceive:     {semconv.MessagingOperationTypeReceive, trace.SpanKindClient},
	opProcess:     {semconv.MessagingOperationTypeProcess, trace.SpanKindConsumer},
	opSettle:      {semconv.MessagingOperationTypeSettle, trace.SpanKindClient},
}

// spanKind holds the name and the first attributes of spans of one operation on
// one queue, which samplers can see. It is made once.
type spanKind struct {
	name    string
	options []trace.SpanStartOption
}

// spanKinds caches span kinds by operation and queue; finding one takes no lock.
type spanKinds struct {
	known [len(operations)]atomic.Pointer[map[string]*spanKind] // copied when they grow
	mu    sync.Mutex
}

func (k *spanKinds) init() {
	for op := range k.known {
		k.known[op].Store(&map[string]*spanKind{})
	}
}

// of returns the kind of spans of an operation; queue is empty for several queues.
func (k *spanKinds) of(op operation, queue string) *spanKind {
	if kind := (*k.known[op].Load())[queue]; kind != nil {
		return kind
	}
	kind := newSpanKind(op, queue)
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := *k.known[op].Load(); len(known) < maxSpanKinds {
		known = maps.Clone(known)
		known[queue] = kind
		k.known[op].Store(&known)
	}
	return kind
}

func newSpanKind(op operation, queue string) *spanKind {
	o := operations[op]
	kind := &spanKind{name: o.typ.Value.AsString()}
	attributes := []attribute.KeyValue{semconv.MessagingSystemKey.String("jobs"), semconv.MessagingOperationName(kind.name), o.typ}
	if queue != "" {
		queue = clean(queue)
		kind.name += " " + queue
		attributes = append(attributes, semconv.MessagingDestinationName(queue))
	}
	kind.options = []trace.SpanStartOption{trace.WithSpanKind(o.kind), trace.WithAttributes(attributes...)}
	return kind
}

// runEnds caches the attributes that runs of one worker with one outcome share.
// It keeps only the last ones, since most runs end like the run before them.
type runEnds struct{ last atomic.Pointer[runEnd] }

type runEnd struct {
	worker, outcome string
	attributes      []attribute.KeyValue
}

func (r *runEnds) of(worker, outcome string) []attribute.KeyValue {
	last := r.last.Load()
	if last == nil || last.worker != worker || last.outcome != outcome {
		last = &runEnd{worker, outcome, []attribute.KeyValue{semconv.MessagingClientID(worker), attrOutcome.String(outcome)}}
		r.last.Store(last)
	}
	return last.attributes
}

// commonQueue returns the queue of all n jobs, or "" if they have several.
func commonQueue(n int, queue func(int) string) string {
	if n == 0 {
		return ""
	}
	first := queue(0)
	for i := 1; i < n; i++ {
		if queue(i) != first {
			return ""
		}
	}
	return first
}
