package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// testRing returns a keyring whose keys are derived from their IDs.
func testRing(t testing.TB, current string, ids ...string) *Keyring {
	t.Helper()
	ring, err := NewKeyring(current, testKeys(ids...))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func testKeys(ids ...string) map[string][]byte {
	keys := make(map[string][]byte)
	for _, id := range ids {
		keys[id] = []byte((id + strings.Repeat("#", KeySize))[:KeySize])
	}
	return keys
}

// The vectors are those of the specification.
func TestEncrypt_TheCipherIsXAES256GCM(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key        byte
		additional string
		want       string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		s := newSealer(bytes.Repeat([]byte{c.key}, KeySize))
		nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
		got := s.seal(nil, nonce, []byte("XAES-256-GCM"), []byte(c.additional))
		if hex.EncodeToString(got) != c.want {
			t.Errorf("key %d: sealed to %x, the specification says %s", c.key, got, c.want)
		}
		if plain, err := s.open(nonce, got, []byte(c.additional)); string(plain) != "XAES-256-GCM" || err != nil {
			t.Errorf("key %d: opened to %q, %v", c.key, plain, err)
		}
	}
}

func TestEncrypt_AnEncryptedPayloadShowsNothing(t *testing.T) {
	t.Parallel()
	codec := Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")})
	plain := []byte("card 4111 1111 1111 1111")
	first, second := encoded(t, codec, plain), encoded(t, codec, plain)
	if bytes.Contains(first.Payload, []byte("4111")) || bytes.Equal(first.Payload, second.Payload) {
		t.Errorf("the same payload was stored as %x and as %x", first.Payload, second.Payload)
	}
	if len(first.Payload) != len(plain)+41 || first.Headers[encryptionHeader] != "k1" {
		t.Errorf("%d bytes became %d under key %q, want 41 more under k1", len(plain), len(first.Payload), first.Headers[encryptionHeader])
	}
}

func TestEncrypt_ATamperedPayloadIsDead(t *testing.T) {
	t.Parallel()
	codec := Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1", "k2")})
	job := encoded(t, codec, []byte("pay 10"))
	for i := range job.Payload {
		bent := bytes.Clone(job.Payload)
		bent[i] ^= 1
		_, err := decode(codec, damaged(job, bent))
		wantDead(t, err, ErrTampered)
	}
	for n := range job.Payload {
		_, err := decode(codec, damaged(job, job.Payload[:n]))
		wantDead(t, err, ErrTampered)
	}
	for name, change := range map[string]func(*broker.Job){
		"another type":  func(j *broker.Job) { j.Type = "refund" },
		"a version":     func(j *broker.Job) { j.TypeVersion++ },
		"another key":   func(j *broker.Job) { j.Headers = map[string]string{encryptionHeader: "k2"} },
		"no encryption": func(j *broker.Job) { j.Headers = nil },
		"another time":  func(j *broker.Job) { j.Payload = append(bytes.Clone(j.Payload), 0) },
	} {
		other := *job
		change(&other)
		_, err := decode(codec, &other)
		if !errors.Is(err, jobs.SkipRetry) || !errors.Is(err, ErrTampered) {
			t.Errorf("%s: the error is %v, want SkipRetry and ErrTampered", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "pay 10") {
			t.Errorf("%s: the error quotes the payload: %v", name, err)
		}
	}
}

func TestEncrypt_KeysRotateWithoutLosingAJob(t *testing.T) {
	t.Parallel()
	producer, worker := testRing(t, "k1", "k1"), testRing(t, "k1", "k1")
	enc, dec := Encrypt(EncryptConfig{Keys: producer}), Encrypt(EncryptConfig{Keys: worker})
	old := encoded(t, enc, []byte("old"))

	if err := producer.Replace("k2", testKeys("k1", "k2")); err != nil {
		t.Fatal(err)
	}
	early := encoded(t, enc, []byte("new"))
	_, err := decode(dec, early)
	if !errors.Is(err, ErrUnknownKey) || errors.Is(err, jobs.SkipRetry) {
		t.Fatalf("a key that is not here yet: %v, want ErrUnknownKey", err)
	}
	if record := outcomeOf(t, err); record.State != jobs.StateRetry || record.Failures != 0 {
		t.Errorf("the job is %v with %d failures, want it put off without a charge", record.State, record.Failures)
	}

	if err := worker.Replace("k2", testKeys("k1", "k2")); err != nil {
		t.Fatal(err)
	}
	for want, job := range map[string]*broker.Job{"old": old, "new": early} {
		if got, err := decode(dec, job); string(got) != want || err != nil {
			t.Errorf("after the rotation the %s payload is %q, error %v", want, got, err)
		}
	}
	if err := worker.Replace("k3", testKeys("k2")); err == nil {
		t.Error("a keyring without its current key was accepted")
	}
	if got, err := decode(dec, old); string(got) != "old" || err != nil {
		t.Errorf("after a refused replacement the old payload is %q, error %v", got, err)
	}
}

// uniqueKeyOf enqueues a task with a PIN through codecs and returns the stored
// unique key.
func uniqueKeyOf(t *testing.T, pin string, option jobs.Option, codecs ...Codec) string {
	t.Helper()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{EncodePayloads(codecs...)}})
	defer client.Close()
	info, err := client.Enqueue(t.Context(), jobs.NewTask("pin", []byte(pin)), jobs.WithUniqueUntilDone(0), option)
	if err != nil {
		t.Fatal(err)
	}
	record, err := inspect.New(b).Job(t.Context(), info.Queue, info.ID)
	if err != nil {
		t.Fatal(err)
	}
	return record.Unique.Key
}

func TestEncrypt_UniqueKeysDoNotGiveThePayloadAway(t *testing.T) {
	t.Parallel()
	ring := testRing(t, "k1", "k1", "k2")
	encrypt := Encrypt(EncryptConfig{Keys: ring})
	compress := Compress(CompressConfig{MinSize: 1})
	named := Encrypt(EncryptConfig{Keys: testRing(t, "k2", "k1", "k2"), UniqueKeyID: "k1"})

	guess := uniqueKeyOf(t, "4711", nil) // anybody who knows the type can compute it
	key := uniqueKeyOf(t, "4711", nil, encrypt)
	digest := strings.TrimPrefix(guess, jobs.DerivedKeyPrefix)
	if sum := sha256.Sum256([]byte("pin\x004711")); digest != hex.EncodeToString(sum[:]) {
		t.Fatalf("the derived key is %q, not what its documentation says", guess)
	}
	if strings.Contains(key, digest) || len(key) < 64 {
		t.Errorf("the unique key of an encrypted payload is %q: its plain hash shows", key)
	}
	for name, c := range map[string]struct {
		equal bool
		key   string
	}{
		"the same payload":                    {true, uniqueKeyOf(t, "4711", nil, encrypt)},
		"compressed before":                   {true, uniqueKeyOf(t, "4711", nil, compress, encrypt)},
		"encrypted by another process":        {true, uniqueKeyOf(t, "4711", nil, Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")}))},
		"another payload":                     {false, uniqueKeyOf(t, "4712", nil, encrypt)},
		"after the current key changed":       {false, uniqueKeyOf(t, "4711", nil, Encrypt(EncryptConfig{Keys: testRing(t, "k2", "k1", "k2")}))},
		"changed, but the hashing key stayed": {true, uniqueKeyOf(t, "4711", nil, named)},
		"another hashing key":                 {false, uniqueKeyOf(t, "4711", nil, Encrypt(EncryptConfig{Keys: ring, UniqueKeyID: "k2"}))},
	} {
		if (c.key == key) != c.equal {
			t.Errorf("%s: the unique key is %q, it was %q at first; equal should be %v", name, c.key, key, c.equal)
		}
	}
	if own := uniqueKeyOf(t, "4711", jobs.WithUniqueKey("invoice 9"), encrypt); own != "invoice 9" {
		t.Errorf("a unique key that the application chose was stored as %q", own)
	}
}

func TestEncrypt_RefusesUniqueJobsWhoseHashingKeyIsMissing(t *testing.T) {
	t.Parallel()
	codec := Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1"), UniqueKeyID: "k0"})
	job := broker.NewJob{Body: broker.Body{Type: "pin", Unique: broker.Unique{Key: jobs.DerivedKeyPrefix + "00"}}}
	if err := codec.EncodePayload(t.Context(), &job); !errors.Is(err, ErrUnknownKey) || !strings.Contains(err.Error(), "k0") {
		t.Errorf("a unique job was encoded without its hashing key: %v, want ErrUnknownKey and the ID k0", err)
	}
	encoded(t, codec, []byte("not unique, not refused"))
}

func TestEncrypt_PlainPayloadsAreReadOnlyWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	plain := &broker.Job{Body: broker.Body{Payload: []byte("plain")}}
	_, err := decode(Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1")}), plain)
	wantDead(t, err, ErrTampered)
	got, err := decode(Encrypt(EncryptConfig{Keys: testRing(t, "k1", "k1"), AllowPlain: true}), plain)
	if string(got) != "plain" || err != nil {
		t.Errorf("with AllowPlain the payload is %q, error %v", got, err)
	}
}

func TestEncrypt_BadKeysAreRefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		current string
		keys    map[string][]byte
		says    string
	}{
		"none":    {"k1", nil, `"k1"`},
		"short":   {"k1", map[string][]byte{"k1": []byte("secret-but-too-short")}, "20 bytes"},
		"no id":   {"", map[string][]byte{"": make([]byte, KeySize)}, "key id"},
		"bad id":  {"a\nb", map[string][]byte{"a\nb": make([]byte, KeySize)}, "key id"},
		"current": {"k2", testKeys("k1"), `"k2"`},
	} {
		_, err := NewKeyring(c.current, c.keys)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is %v, want one that says %s and shows no key", name, err, c.says)
		}
	}
}

func TestEncrypt_NoWayOfPrintingShowsAKey(t *testing.T) {
	t.Parallel()
	ring := testRing(t, "k1", "k1", "k2")
	codec := Encrypt(EncryptConfig{Keys: ring})
	var out strings.Builder
	for _, v := range []any{ring, codec, EncryptConfig{Keys: ring}, struct{ K *Keyring }{ring}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		j, _ := json.Marshal(v)
		out.Write(j)
		slog.New(slog.NewTextHandler(&out, nil)).Info("ring", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("ring", "v", v)
	}
	for _, key := range testKeys("k1", "k2") {
		for _, form := range []string{string(key), hex.EncodeToString(key), strings.Trim(fmt.Sprint(key), "[]")} {
			if strings.Contains(out.String(), form[:8]) {
				t.Errorf("a key shows as %q in:\n%s", form[:8], out.String())
			}
		}
	}
	if !strings.Contains(ring.String(), "k1:true") {
		t.Errorf("the keyring prints as %q, want its IDs", ring)
	}
}

func FuzzDecrypt(f *testing.F) {
	codec := Encrypt(EncryptConfig{Keys: testRing(f, "k1", "k1", "k2")})
	f.Add("k1", "report", []byte("payload"))
	f.Add("k2", "", make([]byte, 40))
	f.Fuzz(func(t *testing.T, id, typ string, payload []byte) {
		forged := &broker.Job{Body: broker.Body{Type: typ, Payload: payload, Headers: map[string]string{encryptionHeader: id}}}
		if got, err := decode(codec, forged); err == nil {
			t.Errorf("bytes that nobody encrypted opened to %q", got)
		}
		job := encoded(t, codec, payload)
		if got, err := decode(codec, job); err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d bytes did not come back: %v", len(payload), err)
		}
		if job.Type = typ; typ != "report" {
			_, err := decode(codec, job)
			wantDead(t, err, ErrTampered)
		}
	})
}
