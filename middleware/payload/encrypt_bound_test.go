package payload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// reversed is a codec of an application, which turns payloads around.
type reversed struct{}

func (reversed) Header() string { return "app-reversed" }

func (reversed) EncodePayload(_ context.Context, job *broker.NewJob) error {
	job.Body.Payload = turned(job.Body.Payload)
	sign(job, "app-reversed", "yes")
	return nil
}

func (reversed) DecodePayload(_ context.Context, job *jobs.Job) ([]byte, error) {
	if _, ok := signed(job, "app-reversed"); ok {
		return turned(job.Payload()), nil
	}
	return job.Payload(), nil
}

func turned(p []byte) []byte {
	p = bytes.Clone(p)
	for i, j := 0, len(p)-1; i < j; i, j = i+1, j-1 {
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// stored returns the body with which codecs store a payload.
func stored(t *testing.T, payload []byte, codecs ...Codec) broker.Body {
	t.Helper()
	return storedBy(t, payload, EncodePayloads(codecs...))
}

// storedBy returns the body with which middleware stores a payload.
func storedBy(t *testing.T, payload []byte, chain ...jobs.EnqueueMiddleware) broker.Body {
	t.Helper()
	o := new(jobs.Outgoing)
	o.Queue, o.ID, o.Body = "q", "1", broker.Body{Type: "report", TypeVersion: 2, Payload: payload, Headers: map[string]string{"trace": "1"}}
	enqueue := func(context.Context, []*jobs.Outgoing) {}
	for _, m := range slices.Backward(chain) {
		enqueue = m(enqueue)
	}
	enqueue(t.Context(), []*jobs.Outgoing{o})
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Body
}

// read returns what a handler behind codecs sees.
func read(t *testing.T, body broker.Body, codecs ...Codec) ([]byte, error) {
	return readBy(t, body, DecodePayloads(codecs...))
}

// readBy returns what a handler behind middleware sees, the outermost first.
func readBy(t *testing.T, body broker.Body, chain ...jobs.Middleware) (payload []byte, err error) {
	handler := jobs.Handler(jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
		payload = job.Payload()
		return nil
	}))
	for _, m := range slices.Backward(chain) {
		handler = m(handler)
	}
	err = handler.ProcessJob(t.Context(), jobs.NewJob(&broker.Job{Queue: "q", ID: "1", Body: body}))
	return payload, err
}

// Whoever can write to the store must not choose how a plaintext is read.
func TestEncrypt_WhatSaysHowToReadThePlaintextIsBound(t *testing.T) {
	t.Parallel()
	plain := bytes.Repeat([]byte("ab"), 1000)
	codecs := []Codec{reversed{}, Compress(CompressConfig{}), Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")}),
		ClaimCheck(ClaimCheckConfig{Blobs: openFileBlobs(t)})}
	body := stored(t, plain, codecs...)
	if got, err := read(t, body, codecs...); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("it was read as %d bytes, %v", len(got), err)
	}
	for name, change := range map[string]func(*broker.Body){
		"no compression":         func(b *broker.Body) { delete(b.Headers, compressionHeader) },
		"another compression":    func(b *broker.Body) { b.Headers[compressionHeader] = "gzip" },
		"no header of the codec": func(b *broker.Body) { delete(b.Headers, "app-reversed") },
		"another type version":   func(b *broker.Body) { b.TypeVersion = 1 },
		"another type":           func(b *broker.Body) { b.Type = "refund" },
	} {
		other := body
		other.Headers = maps.Clone(body.Headers)
		change(&other)
		if got, err := read(t, other, codecs...); !errors.Is(err, jobs.SkipRetry) || !errors.Is(err, ErrTampered) {
			t.Errorf("with %s it was read as %.10q, %v; want SkipRetry and ErrTampered", name, got, err)
		}
	}
	other := body
	other.Headers = map[string]string{"trace": "2", compressionHeader: "zstd", encryptionHeader: "k1", "app-reversed": "yes"}
	if got, err := read(t, other, codecs...); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("with another trace it was read as %d bytes, %v", len(got), err)
	}
}

// Handlers get a codec before producers do.
func TestEncrypt_ReadsWhatWasStoredBeforeAnotherCodecCame(t *testing.T) {
	t.Parallel()
	encrypt := Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")})
	body := stored(t, []byte("plain"), encrypt)
	codecs := []Codec{reversed{}, Compress(CompressConfig{MinSize: 1}), encrypt}
	if got, err := read(t, body, codecs...); err != nil || string(got) != "plain" {
		t.Errorf("it was read as %q, %v", got, err)
	}
	body.Headers[compressionHeader] = "zstd"
	if got, err := read(t, body, codecs...); !errors.Is(err, ErrTampered) {
		t.Errorf("with a header that was not there it was read as %q, %v", got, err)
	}
}

// wrapped is a decorator: of the methods of its codec it has only those of Codec.
type wrapped struct{ Codec }

// Producers and handlers can have their codecs in other lists, or one of them an older codec.
func TestEncrypt_TheHeadersThatThePayloadNamesAreBound(t *testing.T) {
	t.Parallel()
	plain := bytes.Repeat([]byte("ab"), 1000)
	compress, encrypt := Compress(CompressConfig{}), Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")})
	all := []Codec{reversed{}, compress, encrypt}
	enqueue, decode := EncodePayloads, DecodePayloads
	type producer = []jobs.EnqueueMiddleware
	type handler = []jobs.Middleware
	for name, test := range map[string]struct {
		producer
		handler
		unbound bool // the header of reversed
	}{
		"one list":                  {producer{enqueue(all...)}, handler{decode(all...)}, false},
		"two lists of the producer": {producer{enqueue(reversed{}, compress), enqueue(encrypt)}, handler{decode(all...)}, false},
		"two lists of the handler":  {producer{enqueue(all...)}, handler{decode(encrypt), decode(reversed{}, compress)}, false},
		"decorators":                {producer{enqueue(reversed{}, wrapped{compress}, wrapped{encrypt})}, handler{decode(all...)}, false},
		"decorators of the handler": {producer{enqueue(all...)}, handler{decode(reversed{}, wrapped{compress}, wrapped{encrypt})}, false},
		"a producer without Header": {producer{enqueue(wrapped{reversed{}}, compress, encrypt)}, handler{decode(all...)}, true},
		"a handler without Header":  {producer{enqueue(all...)}, handler{decode(wrapped{reversed{}}, compress, encrypt)}, false},
	} {
		body := storedBy(t, plain, test.producer...)
		if got, err := readBy(t, body, test.handler...); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: it was read as %d bytes, %v", name, len(got), err)
		}
		for _, header := range []string{compressionHeader, "app-reversed"} {
			other := body
			other.Headers = maps.Clone(body.Headers)
			delete(other.Headers, header)
			_, err := readBy(t, other, test.handler...)
			if tampered := errors.Is(err, ErrTampered); tampered == (test.unbound && header == "app-reversed") {
				t.Errorf("%s: without %s it was read: %v", name, header, err)
			}
		}
	}
}

// Whoever can write to the store must not choose which headers are bound.
func TestEncrypt_TheNamesOfBoundHeadersAreBound(t *testing.T) {
	t.Parallel()
	codecs := []Codec{reversed{}, Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")})}
	body := stored(t, []byte("plain"), codecs...)
	names, rest, ok := cutNames(body.Payload)
	if !ok || !slices.Equal(names, []string{"app-reversed"}) {
		t.Fatalf("the payload names %q, %v", names, ok)
	}
	delete(body.Headers, "app-reversed")
	for name, payload := range map[string][]byte{
		"no names":        append(appendNames(nil, nil), rest...),
		"another name":    append(appendNames(nil, []string{"app-other"}), rest...),
		"too many names":  append([]byte{200}, rest...),
		"a name too long": append([]byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, rest...),
		"nothing":         nil,
		"only names":      appendNames(nil, names),
	} {
		body.Payload = payload
		if got, err := read(t, body, codecs...); !errors.Is(err, ErrTampered) {
			t.Errorf("with %s it was read as %q, %v", name, got, err)
		}
	}
}

// The names come before the seal, so whoever can write to the store chooses them.
func TestEncrypt_NamesOfManyHeadersTakeLittleMemory(t *testing.T) {
	codec := Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")})
	const size = 4 << 20
	job := &broker.Job{Body: broker.Body{Headers: map[string]string{encryptionHeader: "k1"},
		Payload: append(binary.AppendUvarint(nil, size), make([]byte, size)...)}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decode(codec, job)
	runtime.ReadMemStats(&after)
	wantDead(t, err, ErrTampered)
	if used := after.TotalAlloc - before.TotalAlloc; used > size {
		t.Errorf("a payload of %d MiB took %d MiB of memory before it was found to be tampered with", size>>20, used>>20)
	}
}

// Inside of EncodePayloads a context goes on to jobs that its codecs have not seen: those of another definition
// in the same call, and those that middleware enqueues.
func TestEncrypt_CodecsOfOtherJobsInTheSameCallAreNotBound(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	codecs := []Codec{Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")}), ClaimCheck(ClaimCheckConfig{Blobs: openFileBlobs(t), MinSize: 1})}
	encode := EncodePayloads(codecs...)
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	audit := func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			next(ctx, batch)
			task, err := jobs.Define[string]("audit").EnqueueWith(encode).Task("plain", jobs.WithID("audit"))
			if err == nil {
				_, err = client.Enqueue(ctx, task)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	mail, err1 := jobs.Define[string]("mail").EnqueueWith(encode, audit).Task("plain", jobs.WithID("mail"))
	bill, err2 := jobs.Define[string]("bill").EnqueueWith(encode).Task("plain", jobs.WithID("bill"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := client.EnqueueMany(t.Context(), []*jobs.Task{mail, bill}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"mail", "bill", "audit"} {
		job, err := inspect.New(b).Job(t.Context(), jobs.DefaultQueue, id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := read(t, job.Body, codecs...); err != nil || string(got) != `"plain"` {
			t.Errorf("the payload of %s was read as %q, %v", id, got, err)
		}
	}
}
