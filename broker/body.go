package broker

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// The stored form of a body is a version byte, the length of the index, the index, and
// the rest. The index holds what a store must know to end a job of any version: its
// unique key and its key. So the index must stay readable whatever the version byte is:
// it may get new fields, and nothing else in it may change.
const bodyVersion = 1

// Field numbers of the index.
const (
	indexUniqueKey = iota + 1
	indexUniqueMode
	indexUniqueTTL
	indexKey
	indexGivenID
	indexPriority
	_ // 7: redisbroker marks leases with it
)

// Field numbers of the rest. A number is never reused for another field.
const (
	bodyType = iota + 1
	bodyTypeVersion
	bodyPayload
	bodyHeader // key, then value: two length-prefixed strings
	bodyMaxRetries
	bodyCrashBudget
	bodyTimeout
	bodyDeadline
	bodyRetention
	bodyBackoffKind
	bodyBackoffBase
	bodyBackoffMax
	bodyCorrelationID
	bodyIdempotencyKey
	bodyPayloadRef
	bodySource
	bodyConflict
	bodyLatest
	bodyDueAfter
)

// AppendBody appends the stored form of b to dst. The same body always gives
// the same bytes.
func AppendBody(dst []byte, b *Body) []byte {
	w := writer{b: append(dst, bodyVersion)}
	// One byte is reserved for the length of the index, which is enough for most.
	at := len(w.b)
	w.b = append(w.b, 0)
	w.str(indexUniqueKey, b.Unique.Key)
	if b.Unique.Key != "" {
		w.int(indexUniqueMode, int64(b.Unique.Mode))
		w.duration(indexUniqueTTL, b.Unique.TTL)
	}
	w.str(indexKey, b.Key)
	if b.GivenID {
		w.int(indexGivenID, 1)
	}
	if p := b.Priority; p != PriorityNormal {
		w.int(indexPriority, int64(p))
	}
	if size := len(w.b) - at - 1; size < 0x80 {
		w.b[at] = byte(size)
	} else {
		var buf [binary.MaxVarintLen64]byte
		n := binary.PutUvarint(buf[:], uint64(size))
		w.b = slices.Insert(w.b, at+1, buf[1:n]...)
		w.b[at] = buf[0]
	}

	w.str(bodyType, b.Type)
	w.int(bodyTypeVersion, int64(b.TypeVersion))
	w.int(bodyMaxRetries, int64(b.MaxRetries))
	w.int(bodyCrashBudget, int64(b.CrashBudget))
	w.duration(bodyTimeout, b.Timeout)
	w.time(bodyDeadline, b.Deadline)
	w.duration(bodyRetention, b.Retention)
	w.int(bodyBackoffKind, int64(b.Backoff.Kind))
	w.duration(bodyBackoffBase, b.Backoff.Base)
	w.duration(bodyBackoffMax, b.Backoff.Max)
	w.duration(bodyDueAfter, b.DueAfter)
	w.str(bodyCorrelationID, b.CorrelationID)
	w.str(bodyIdempotencyKey, b.IdempotencyKey)
	w.str(bodyPayloadRef, b.PayloadRef)
	w.str(bodySource, b.Source)
	if b.Unique.Key != "" {
		w.int(bodyConflict, int64(b.Unique.Conflict))
		w.duration(bodyLatest, b.Unique.Latest)
	}
	if len(b.Headers) > 0 {
		w.headers(b.Headers)
	}
	w.bytes(bodyPayload, b.Payload)
	return w.b
}

func (w *writer) headers(h map[string]string) {
	keys := make([]string, 0, len(h)) // slices.Sorted allocates more
	for k := range h {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var pair []byte
	for _, k := range keys {
		pair = binary.AppendUvarint(pair[:0], uint64(len(k)))
		pair = append(append(pair, k...), h[k]...)
		w.bytes(bodyHeader, pair)
	}
}

// ParseBody reads a stored body. Payload aliases p. If the form is of a newer version or
// malformed, the error says so (ErrNewerForm, ErrMalformed), and the body has only the
// fields of its index.
func ParseBody(p []byte) (Body, error) {
	b := Body{Priority: PriorityNormal}
	if len(p) < 2 {
		return b, malformed("body")
	}
	size, n := binary.Uvarint(p[1:])
	if n <= 0 || size > uint64(len(p)-1-n) {
		return b, malformed("index")
	}
	index, rest := p[1+n:1+n+int(size)], p[1+n+int(size):]
	if err := fields(index, b.indexField); err != nil {
		return b, err
	}
	if v := p[0]; v != bodyVersion {
		if v < bodyVersion {
			return b, malformed("version")
		}
		return b, fmt.Errorf("%w: body version %d, this program reads up to %d", ErrNewerForm, v, bodyVersion)
	}
	return b, fields(rest, b.field)
}

func (b *Body) indexField(field int, v int64, p []byte) error {
	switch field {
	case indexUniqueKey:
		b.Unique.Key = string(p)
	case indexUniqueMode:
		b.Unique.Mode = UniqueMode(v)
	case indexUniqueTTL:
		b.Unique.TTL = micros(v)
	case indexKey:
		b.Key = string(p)
	case indexGivenID:
		b.GivenID = v != 0
	case indexPriority:
		b.Priority = Priority(v)
	default:
		b.newer = true
	}
	return nil
}

func (b *Body) field(field int, v int64, p []byte) error {
	switch field {
	case bodyType:
		b.Type = string(p)
	case bodyTypeVersion:
		b.TypeVersion = int(v)
	case bodyPayload:
		b.Payload = p
	case bodyHeader:
		size, n := binary.Uvarint(p)
		if n <= 0 || size > uint64(len(p)-n) {
			return malformed("header")
		}
		if b.Headers == nil {
			b.Headers = make(map[string]string)
		}
		b.Headers[string(p[n:n+int(size)])] = string(p[n+int(size):])
	case bodyMaxRetries:
		b.MaxRetries = int(v)
	case bodyCrashBudget:
		b.CrashBudget = int(v)
	case bodyTimeout:
		b.Timeout = micros(v)
	case bodyDeadline:
		b.Deadline = FromMicros(v)
	case bodyRetention:
		b.Retention = micros(v)
	case bodyBackoffKind:
		b.Backoff.Kind = BackoffKind(v)
	case bodyBackoffBase:
		b.Backoff.Base = micros(v)
	case bodyBackoffMax:
		b.Backoff.Max = micros(v)
	case bodyCorrelationID:
		b.CorrelationID = string(p)
	case bodyIdempotencyKey:
		b.IdempotencyKey = string(p)
	case bodyPayloadRef:
		b.PayloadRef = string(p)
	case bodySource:
		b.Source = string(p)
	case bodyConflict:
		b.Unique.Conflict = UniqueConflict(v)
	case bodyLatest:
		b.Unique.Latest = micros(v)
	case bodyDueAfter:
		b.DueAfter = micros(v)
	default:
		b.newer = true
	}
	return nil
}

// ReplacePayload returns the stored form of a body with another payload. Everything else
// stays, including fields of a newer version. If the form is of a newer version or
// malformed, the error says so (ErrNewerForm, ErrMalformed).
func ReplacePayload(form, payload []byte) ([]byte, error) {
	if _, err := ParseBody(form); err != nil {
		return nil, err
	}
	return replaceFields(form, func(field int) bool { return field == bodyPayload }, func(w *writer) { w.bytes(bodyPayload, payload) })
}

// ReplaceContent returns the stored form of a body with the content of b. The content is
// what a handler reads: type version, payload, its reference, headers, correlation ID and
// idempotency key (§39). Everything else stays, including fields of a newer version. Like
// ReplacePayload, it refuses a form that cannot be read. It refuses a body of another type
// with ErrDuplicate.
func ReplaceContent(form []byte, b *Body) ([]byte, error) {
	switch was, err := ParseBody(form); {
	case err != nil:
		return nil, err
	case was.Type != b.Type:
		return nil, ErrDuplicate
	}
	return replaceFields(form, isContent, b.appendContent)
}

func isContent(field int) bool {
	switch field {
	case bodyTypeVersion, bodyPayload, bodyHeader, bodyCorrelationID, bodyIdempotencyKey, bodyPayloadRef:
		return true
	}
	return false
}

func (b *Body) appendContent(w *writer) {
	w.int(bodyTypeVersion, int64(b.TypeVersion))
	w.str(bodyCorrelationID, b.CorrelationID)
	w.str(bodyIdempotencyKey, b.IdempotencyKey)
	w.str(bodyPayloadRef, b.PayloadRef)
	if len(b.Headers) > 0 {
		w.headers(b.Headers)
	}
	w.bytes(bodyPayload, b.Payload)
}

// CopyContent copies what a handler reads (§39) from another body to b.
func (b *Body) CopyContent(from *Body) {
	b.TypeVersion, b.Payload, b.PayloadRef, b.Headers = from.TypeVersion, from.Payload, from.PayloadRef, from.Headers
	b.CorrelationID, b.IdempotencyKey = from.CorrelationID, from.IdempotencyKey
}

// replaceFields returns a stored body without the fields for which out is true. What add
// writes takes the place of the first of them, or goes to the end. The form must be one
// that ParseBody can read.
func replaceFields(form []byte, out func(field int) bool, add func(*writer)) ([]byte, error) {
	size, n := binary.Uvarint(form[1:])
	rest := form[1+n+int(size):]
	w := writer{b: make([]byte, 0, len(form))}
	w.b = append(w.b, form[:len(form)-len(rest)]...)
	added := false
	err := rawFields(rest, func(field int, _ int64, _, raw []byte) error {
		switch {
		case !out(field):
			w.b = append(w.b, raw...)
		case !added:
			added = true
			add(&w)
		}
		return nil
	})
	if !added {
		add(&w)
	}
	return w.b, err
}

func micros(v int64) time.Duration { return time.Duration(v) * time.Microsecond }
