// Package asynqdata reads what asynq (github.com/hibiken/asynq) keeps in Redis, and says which job of
// this module each task becomes. It writes nothing. The operator's command imports with it, and the
// module compat/asynq enqueues with it; asynq itself is not compiled in. It is tested with what asynq
// v0.26 writes.
package asynqdata

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed81422ce9/jobs/broker"
)

// Message is a task as asynq stores it. Times are Unix times and spans are in seconds, as in asynq; zero
// means none.
type Message struct {
	ID, Queue, Type     string
	Payload             []byte
	Headers             map[string]string
	MaxRetry            int // retries after the first run
	Retried             int
	LastError           string
	LastFailedAt        int64
	Timeout, Deadline   int64
	Retention           int64
	CompletedAt         int64
	UniqueKey, GroupKey string
}

// Field numbers of asynq's TaskMessage.
const (
	fieldType         protowire.Number = 1
	fieldPayload      protowire.Number = 2
	fieldID           protowire.Number = 3
	fieldQueue        protowire.Number = 4
	fieldRetry        protowire.Number = 5
	fieldRetried      protowire.Number = 6
	fieldErrorMsg     protowire.Number = 7
	fieldTimeout      protowire.Number = 8
	fieldDeadline     protowire.Number = 9
	fieldUniqueKey    protowire.Number = 10
	fieldLastFailedAt protowire.Number = 11
	fieldRetention    protowire.Number = 12
	fieldCompletedAt  protowire.Number = 13
	fieldGroupKey     protowire.Number = 14
	fieldHeaders      protowire.Number = 15
)

// ParseMessage reads a message. The error is broker.ErrMalformed. Fields that are
// not known are skipped.
func ParseMessage(p []byte) (m Message, err error) {
	err = fields(p, func(number protowire.Number, v uint64, text []byte) error {
		switch number {
		case fieldType:
			m.Type = string(text)
		case fieldPayload:
			m.Payload = append([]byte(nil), text...)
		case fieldID:
			m.ID = string(text)
		case fieldQueue:
			m.Queue = string(text)
		case fieldRetry:
			m.MaxRetry = int(int32(v))
		case fieldRetried:
			m.Retried = int(int32(v))
		case fieldErrorMsg:
			m.LastError = string(text)
		case fieldTimeout:
			m.Timeout = int64(v)
		case fieldDeadline:
			m.Deadline = int64(v)
		case fieldUniqueKey:
			m.UniqueKey = string(text)
		case fieldLastFailedAt:
			m.LastFailedAt = int64(v)
		case fieldRetention:
			m.Retention = int64(v)
		case fieldCompletedAt:
			m.CompletedAt = int64(v)
		case fieldGroupKey:
			m.GroupKey = string(text)
		case fieldHeaders:
			return m.header(text)
		}
		return nil
	})
	return m, err
}

func (m *Message) header(p []byte) error {
	var name, value string
	err := fields(p, func(number protowire.Number, _ uint64, text []byte) error {
		switch number {
		case 1:
			name = string(text)
		case 2:
			value = string(text)
		}
		return nil
	})
	if m.Headers == nil {
		m.Headers = make(map[string]string)
	}
	m.Headers[name] = value
	return err
}

// fields calls f with each field of a protobuf message: a number or bytes.
func fields(p []byte, f func(number protowire.Number, v uint64, text []byte) error) error {
	for len(p) > 0 {
		number, typ, n := protowire.ConsumeTag(p)
		if n < 0 {
			return fmt.Errorf("%w: asynq's message: %w", broker.ErrMalformed, protowire.ParseError(n))
		}
		p = p[n:]
		var v uint64
		var text []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(p)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(p)
		default:
			n = protowire.ConsumeFieldValue(number, typ, p)
		}
		if n < 0 {
			return fmt.Errorf("%w: asynq's message: %w", broker.ErrMalformed, protowire.ParseError(n))
		}
		p = p[n:]
		if err := f(number, v, text); err != nil {
			return err
		}
	}
	return nil
}

// Source is the source of jobs that were tasks of asynq.
const Source = "asynq"

// NewJob returns the job that the task becomes, due at once. Its ID and queue are the task's. A deadline
// without a timeout means no timeout, as in asynq. The unique key, if the task has one, is held until
// the job is done; see UniqueKey.
func (m *Message) NewJob() broker.NewJob {
	b := broker.Body{Type: m.Type, Payload: m.Payload, Headers: m.Headers, Priority: broker.PriorityNormal,
		MaxRetries: m.MaxRetry, Timeout: span(m.Timeout), Retention: span(m.Retention),
		GivenID: true, Source: Source}
	if m.Deadline > 0 {
		b.Deadline = time.Unix(m.Deadline, 0).UTC()
		if m.Timeout == 0 {
			b.Timeout = broker.NoTimeout
		}
	}
	if m.UniqueKey != "" {
		b.Unique.Key = UniqueKey(m.UniqueKey)
	}
	return broker.NewJob{Queue: m.Queue, ID: m.ID, Body: b}
}

// span returns a span of asynq, which may be longer than any here: who gives the longest wants no end.
func span(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(broker.MaxDelay/time.Second))) * time.Second
}

// UniqueKey returns the unique key here of a task that has the given key in asynq. In both systems a key
// belongs to one queue, so the queue's name is left out. An imported job gets the same key as a job that
// the module compat/asynq enqueues.
func UniqueKey(key string) string {
	if _, rest, ok := strings.Cut(key, "}:unique:"); ok {
		key = rest
	}
	key = "asynq:" + key
	if len(key) > broker.MaxNameLen { // the type is long
		sum := sha256.Sum256([]byte(key))
		key = "asynq:" + hex.EncodeToString(sum[:])
	}
	return key
}
