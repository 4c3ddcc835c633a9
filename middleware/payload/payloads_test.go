package payload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// encoded returns a job with the stored form of a payload.
func encoded(t testing.TB, codec Codec, payload []byte) *broker.Job {
	t.Helper()
	job := broker.NewJob{Queue: "q", ID: "1", Body: broker.Body{Type: "report", Payload: payload}}
	before := bytes.Clone(payload)
	if err := codec.EncodePayload(context.Background(), &job); err != nil {
		t.Fatalf("encoding %d bytes: %v", len(payload), err)
	}
	if !bytes.Equal(payload, before) {
		t.Fatal("the producer's bytes were changed")
	}
	return &broker.Job{Queue: job.Queue, ID: job.ID, Body: job.Body}
}

func decode(codec Codec, job *broker.Job) ([]byte, error) {
	return codec.DecodePayload(context.Background(), jobs.NewJob(job))
}

// damaged returns a copy of the job with another payload.
func damaged(job *broker.Job, payload []byte) *broker.Job {
	other := *job
	other.Payload = payload
	return &other
}

// wantDead checks that an error sends the job to the dead-letter queue.
func wantDead(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, jobs.SkipRetry) || !errors.Is(err, want) {
		t.Errorf("the error is %v, want SkipRetry and %v", err, want)
	}
}

// outcomeOf returns the record of a job whose handler returned this error.
func outcomeOf(t *testing.T, handlerErr error) *jobs.JobRecord {
	t.Helper()
	b := membroker.New()
	defer b.Close()
	settled := make(chan struct{}, 1)
	server, err := jobs.NewServer(b, jobs.Config{Logger: slog.New(slog.DiscardHandler), Hooks: jobs.Hooks{Settle: func(e jobs.SettleEvent) {
		if len(e.Items) > 0 {
			settled <- struct{}{}
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	server.Start(context.Background(), jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return handlerErr }))
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	info, err := client.Enqueue(t.Context(), jobs.NewTask("report", nil))
	if err != nil {
		t.Fatal(err)
	}
	<-settled
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	record, err := inspect.New(b).Job(t.Context(), info.Queue, info.ID)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func TestPayloads_CodecsReturnAnyPayloadByteForByte(t *testing.T) {
	t.Parallel()
	ring := testRing(t, "k1", "k1")
	for name, codecs := range map[string][]Codec{
		"compress":   {Compress(CompressConfig{})},
		"encrypt":    {Encrypt(EncryptConfig{Keys: ring})},
		"claimcheck": {ClaimCheck(ClaimCheckConfig{Blobs: openFileBlobs(t)})},
		"all": {Compress(CompressConfig{}), Encrypt(EncryptConfig{Keys: ring}),
			ClaimCheck(ClaimCheckConfig{Blobs: openFileBlobs(t), MinSize: 1000})},
		"all, backwards": {ClaimCheck(ClaimCheckConfig{Blobs: openFileBlobs(t), MinSize: 1000}), Encrypt(EncryptConfig{Keys: ring}),
			Compress(CompressConfig{MinSize: 1})},
		"none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, want := range [][]byte{nil, {}, {0}, []byte("{}"), []byte("\xff\x00\xfe"), bytes.Repeat([]byte("ab"), 100_000), noise(1 << 20)} {
				var stored *jobs.Outgoing
				store := EncodePayloads(codecs...)(func(_ context.Context, batch []*jobs.Outgoing) { stored = batch[0] })
				o := new(jobs.Outgoing)
				o.Queue, o.ID, o.Body.Type, o.Body.Payload = "q", "1", "report", want
				if store(t.Context(), []*jobs.Outgoing{o}); stored.Err != nil {
					t.Fatalf("%d bytes were refused: %v", len(want), stored.Err)
				}
				var got []byte
				job := jobs.NewJob(&broker.Job{Queue: "q", ID: "1", Body: stored.Body})
				err := DecodePayloads(codecs...)(jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
					got = job.Payload()
					job.SetResult([]byte("seen"))
					return nil
				})).ProcessJob(t.Context(), job)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes came back as %d bytes, error %v", len(want), len(got), err)
				}
				if string(job.Result()) != "seen" {
					t.Errorf("the handler's result did not reach the job")
				}
			}
		})
	}
}

// A handler may enqueue a job with a copy of its own job's headers.
func TestPayloads_HeadersOfAnotherJobDoNotMislead(t *testing.T) {
	t.Parallel()
	codecs := []Codec{Compress(CompressConfig{}), ClaimCheck(ClaimCheckConfig{Blobs: openFileBlobs(t), MinSize: 100})}
	headers := map[string]string{compressionHeader: "zstd", claimHeader: claimOf([]byte("other")).String(), "mine": "kept"}
	o := new(jobs.Outgoing)
	o.Queue, o.ID, o.Body.Headers, o.Body.Payload = "q", "1", maps.Clone(headers), []byte("small")
	EncodePayloads(codecs...)(func(context.Context, []*jobs.Outgoing) {})(t.Context(), []*jobs.Outgoing{o})
	err := DecodePayloads(codecs...)(jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
		if string(job.Payload()) != "small" || job.Header("mine") != "kept" {
			return fmt.Errorf("payload %q, headers %q", job.Payload(), job.Headers())
		}
		return nil
	})).ProcessJob(t.Context(), jobs.NewJob(&broker.Job{Body: o.Body}))
	if err != nil {
		t.Error(err)
	}
}

func TestPayloads_APayloadThatCannotBeEncodedRefusesItsJobAlone(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{
		EncodePayloads(Compress(CompressConfig{MaxSize: 10}), Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")}))}})
	defer client.Close()
	receipts, err := client.EnqueueMany(t.Context(), []*jobs.Task{
		jobs.NewTask("report", []byte("short")), jobs.NewTask("report", []byte("eleven byte")), jobs.NewTask("report", nil)})
	if !errors.Is(err, jobs.ErrTooLarge) {
		t.Errorf("the error is %v, want ErrTooLarge", err)
	}
	for i, want := range []error{nil, jobs.ErrTooLarge, nil} {
		if !errors.Is(receipts[i].Err, want) {
			t.Errorf("task %d was answered %v, want %v", i, receipts[i].Err, want)
		}
	}
}

// Whether the second codec encoded the payload, its header would say of both.
func TestPayloads_ACodecThatIsAppliedTwiceRefusesTheJob(t *testing.T) {
	t.Parallel()
	for name, codec := range map[string]Codec{
		"compress":    Compress(CompressConfig{}),
		"encrypt":     Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")}),
		"claim check": ClaimCheck(ClaimCheckConfig{Blobs: openFileBlobs(t), MinSize: 1 << 10}),
	} {
		b := membroker.New()
		defer b.Close()
		client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{EncodePayloads(codec)}})
		defer client.Close()
		mail := jobs.Define[string]("mail").EnqueueWith(EncodePayloads(codec))
		task, err := mail.Task(strings.Repeat("payload", 1000))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Enqueue(t.Context(), task); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%s twice: %v; want ErrInvalid", name, err)
		}
	}
}

func TestPayloads_WhatCannotBeReadHereIsPutOffLongerEachTime(t *testing.T) {
	t.Parallel()
	reason := errors.New("the key is not here")
	record := outcomeOf(t, putOff(jobs.NewJob(&broker.Job{}), reason))
	if record.State != jobs.StateRetry || record.Failures != 0 || record.Snoozes != 1 {
		t.Errorf("the job is %v with %d failures and %d snoozes, want a snooze without a charge", record.State, record.Failures, record.Snoozes)
	}
	if p := record.PutOffFor("payload"); p.Times != 1 {
		t.Errorf("the job counts %+v, want one put-off", record.PutOffs)
	}
	for _, c := range []struct {
		times    int
		min, max time.Duration
	}{{0, 4 * time.Second, 6 * time.Second}, {3, 15 * time.Second, 19 * time.Second}, {1_000_000, 9 * time.Minute, 11 * time.Minute}} {
		err := putOff(jobs.NewJob(&broker.Job{Head: broker.Head{Snoozes: 20,
			PutOffs: []broker.PutOff{{Cause: "payload", Times: c.times, Charged: 20}}}}), reason)
		var delay time.Duration
		if _, scanErr := fmt.Sscanf(err.Error()[len(reason.Error()):], ": snoozed for %s", (*duration)(&delay)); scanErr != nil {
			t.Fatal(scanErr)
		}
		if !errors.Is(err, reason) || delay < c.min || delay > c.max {
			t.Errorf("after %d put-offs: %v, want a delay of %v to %v", c.times, err, c.min, c.max)
		}
	}
}

// duration can be scanned by fmt.
type duration time.Duration

func (d *duration) Scan(s fmt.ScanState, _ rune) error {
	token, err := s.Token(true, nil)
	if err == nil {
		var parsed time.Duration
		parsed, err = time.ParseDuration(string(token))
		*d = duration(parsed)
	}
	return err
}

func TestPayloads_ConstructorsRefuseWhatCannotWork(t *testing.T) {
	t.Parallel()
	blobs := openFileBlobs(t)
	for field, build := range map[string]func(){
		"CompressConfig.MinSize":   func() { Compress(CompressConfig{MinSize: -1}) },
		"CompressConfig.MaxSize":   func() { Compress(CompressConfig{MaxSize: 1<<30 + 1}) },
		"EncryptConfig.Keys":       func() { Encrypt(EncryptConfig{Keys: new(Keyring)}) },
		"ClaimCheckConfig.Blobs":   func() { ClaimCheck(ClaimCheckConfig{}) },
		"ClaimCheckConfig.Blobs: ": func() { ClaimCheck(ClaimCheckConfig{Blobs: (*FileBlobs)(nil)}) },
		"ClaimCheckConfig.MinSize": func() { ClaimCheck(ClaimCheckConfig{Blobs: blobs, MinSize: -1}) },
		"ClaimCheckConfig.MaxSize": func() { ClaimCheck(ClaimCheckConfig{Blobs: blobs, MaxSize: -1}) },
		"EncodePayloads":           func() { EncodePayloads(Compress(CompressConfig{}), nil) },
		"DecodePayloads":           func() { DecodePayloads(nil) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), field) {
					t.Errorf("%s: the panic is %v, want ErrInvalid that names the field", field, err)
				}
			}()
			build()
		}()
	}
}
