package payload

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
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
	o := new(jobs.Outgoing)
	o.Queue, o.ID, o.Body = "q", "1", broker.Body{Type: "report", TypeVersion: 2, Payload: payload, Headers: map[string]string{"trace": "1"}}
	EncodePayloads(codecs...)(func(context.Context, []*jobs.Outgoing) {})(t.Context(), []*jobs.Outgoing{o})
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Body
}

// read returns what a handler behind codecs sees.
func read(t *testing.T, body broker.Body, codecs ...Codec) (payload []byte, err error) {
	err = DecodePayloads(codecs...)(jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
		payload = job.Payload()
		return nil
	})).ProcessJob(t.Context(), jobs.NewJob(&broker.Job{Queue: "q", ID: "1", Body: body}))
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
