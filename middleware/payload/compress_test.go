package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// noise returns n bytes that cannot be compressed.
func noise(n int) []byte {
	r := rand.NewChaCha8(sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n))))
	p := make([]byte, n)
	_, _ = r.Read(p)
	return p
}

func TestCompress_OnlyWhatBecomesSmallerIsCompressed(t *testing.T) {
	t.Parallel()
	codec := Compress(CompressConfig{})
	for name, c := range map[string]struct {
		payload    []byte
		compressed bool
	}{
		"small": {bytes.Repeat([]byte("a"), 1<<10-1), false}, "large": {bytes.Repeat([]byte("a"), 1<<10), true}, "noise": {noise(1 << 14), false},
	} {
		job := encoded(t, codec, c.payload)
		if got := job.Headers[compressionHeader] != ""; got != c.compressed || got != (len(job.Payload) < len(c.payload)) {
			t.Errorf("%s: %d bytes became %d, header %q", name, len(c.payload), len(job.Payload), job.Headers[compressionHeader])
		}
	}
}

func TestCompress_ADecompressionBombIsDeadAndTakesLittleMemory(t *testing.T) {
	const limit = 1 << 20
	codec := Compress(CompressConfig{MaxSize: limit})
	streamed := new(bytes.Buffer) // its frame does not contain the size
	w, err := zstd.NewWriter(streamed, zstd.WithWindowSize(limit/2))
	if err != nil {
		t.Fatal(err)
	}
	for range 256 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string][]byte{
		"one frame": packed(t, make([]byte, 256<<20)), "a streamed frame": streamed.Bytes(),
		"many frames":     bytes.Repeat(packed(t, make([]byte, limit)), 256),
		"a byte too long": packed(t, make([]byte, limit+1)),
	} {
		job := &broker.Job{Body: broker.Body{Payload: payload, Headers: map[string]string{compressionHeader: zstdEncoding}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(codec, job)
		runtime.ReadMemStats(&after)
		wantDead(t, err, err)
		if used := after.TotalAlloc - before.TotalAlloc; used > 16*limit {
			t.Errorf("%s: %d bytes that would become 256 MiB took %d MiB of memory, the limit is 1", name, len(payload), used>>20)
		}
	}
	_, err = decode(codec, &broker.Job{Body: broker.Body{Payload: streamed.Bytes(),
		Headers: map[string]string{compressionHeader: zstdEncoding}}})
	wantDead(t, err, jobs.ErrTooLarge)
}

func TestCompress_APayloadAsLargeAsTheLimitComesBack(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 900, 1024, 1025, 1 << 20, 9 << 20, 20 << 20} {
		codec := Compress(CompressConfig{MinSize: 1, MaxSize: limit})
		if got, err := decode(codec, encoded(t, codec, make([]byte, limit))); err != nil || len(got) != limit {
			t.Errorf("a payload of %d bytes came back as %d bytes, error %v", limit, len(got), err)
		}
	}
}

func packed(t testing.TB, plain []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(plain, nil)
}

func TestCompress_DamagedCompressionIsDead(t *testing.T) {
	t.Parallel()
	codec := Compress(CompressConfig{})
	job := encoded(t, codec, bytes.Repeat([]byte("jobs "), 1000))
	for i := range job.Payload {
		bent := bytes.Clone(job.Payload)
		bent[i] ^= 0x40
		if _, err := decode(codec, damaged(job, bent)); err != nil {
			wantDead(t, err, err)
		}
	}
	_, err := decode(codec, damaged(job, job.Payload[:len(job.Payload)-1]))
	wantDead(t, err, ErrTampered)
	_, err = decode(codec, damaged(job, []byte("plain")))
	wantDead(t, err, ErrTampered)
}

func TestCompress_ACompressionOfANewerReleaseIsPutOff(t *testing.T) {
	t.Parallel()
	_, err := decode(Compress(CompressConfig{}), &broker.Job{Body: broker.Body{Headers: map[string]string{compressionHeader: "brotli"}}})
	if record := outcomeOf(t, err); record.State != jobs.StateRetry || record.Failures != 0 {
		t.Errorf("the job is %v with %d failures (error %v), want it put off without a charge", record.State, record.Failures, err)
	}
}

func FuzzDecompress(f *testing.F) {
	const limit = 1000
	codec := Compress(CompressConfig{MaxSize: limit})
	f.Add([]byte(nil))
	f.Add(packed(f, []byte("jobs jobs jobs jobs")))
	f.Add(packed(f, make([]byte, limit+1)))
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := decode(codec, &broker.Job{Body: broker.Body{Payload: payload, Headers: map[string]string{compressionHeader: zstdEncoding}}})
		if len(got) > limit {
			t.Errorf("decompressed to %d bytes, the limit is %d", len(got), limit)
		}
		if err != nil {
			wantDead(t, err, err)
		}
		if got, err := decode(codec, encoded(t, codec, payload[:min(len(payload), limit)])); err != nil ||
			!bytes.Equal(got, payload[:min(len(payload), limit)]) {
			t.Errorf("%d bytes did not come back: %v", len(payload), err)
		}
	})
}
