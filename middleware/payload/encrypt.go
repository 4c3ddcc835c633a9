package payload

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
	"github.com/seed81422ce9/jobs/internal/field"
)

// EncryptConfig configures Encrypt. Keys is required.
type EncryptConfig struct {
	// Keys has the key that encrypts, and those that decrypt. It is required.
	Keys *Keyring
	// AllowPlain lets handlers see payloads that are not encrypted: set it while encryption is being
	// introduced. Without it such a job is dead, since whoever can write to the store could have put it
	// there.
	AllowPlain bool
	// UniqueKeyID is the ID of the key in the keyring that hashes the unique
	// keys of jobs that have none of their own; see jobs.DerivedKeyPrefix. Empty
	// means the current key: after it changes, a job is not recognised as the
	// duplicate of one that was enqueued before. To keep unique keys the same when the current key
	// changes, name a key, the same at all producers. While the keyring lacks it, such jobs are refused
	// (ErrUnknownKey).
	UniqueKeyID string
}

const (
	encryptionHeader = coding.HeaderEncryption
	hashedKeyPrefix  = "hmac-sha256:"
)

// Encrypt is the codec that encrypts payloads with AES-256-GCM. Access to the
// store, its backups or the operator's tools does not suffice to read or forge
// them. A payload is bound to what says how to read it: the task's type and type
// version, the header of Compress, and the headers of the codecs before Encrypt (see
// Codec). So it cannot be used for a task of another type, or be read in another way. The
// payload says which headers those are, so handlers read what other producers, with other
// codecs before Encrypt, have encrypted. Encrypt does not prevent anybody from copying a
// whole job and storing it a second time.
//
// Only payloads are encrypted. Types, headers, results, error messages and the
// keys that the application chooses (of tenants, idempotency and uniqueness)
// are stored in clear. A unique key that the client derived from the payload is
// replaced by its HMAC-SHA256 under a key of the keyring, so that the payload
// cannot be found by guessing; it still shows which payloads are equal. The size
// of the payload shows too.
//
// An encrypted job has the ID of its key in the header jobs-encryption, and a
// payload that is 41 bytes larger, plus the names of bound headers other than that
// of Compress. A job whose payload was tampered with is dead (ErrTampered). If the
// keyring lacks the key (ErrUnknownKey), the job is snoozed without a charge, for 5
// seconds at first and up to 10 minutes, until a worker has the key.
//
// The cipher is XAES-256-GCM: it derives a key for each payload from a random
// nonce of 24 bytes, so that one key is safe for any number of payloads.
func Encrypt(cfg EncryptConfig) Codec {
	if cfg.Keys == nil || cfg.Keys.keys.Load() == nil {
		field.Refuse("EncryptConfig.Keys", "is empty; make it with NewKeyring")
	}
	return &encryption{cfg}
}

type encryption struct{ EncryptConfig }

// Header returns the name of the codec's header.
func (e *encryption) Header() string { return encryptionHeader }

func (e *encryption) EncodePayload(ctx context.Context, job *broker.NewJob) error {
	keys := e.Keys.keys.Load()
	plain := job.Body.Payload
	names := slices.DeleteFunc(slices.Clone(headersBefore(ctx)), func(name string) bool { return name == compressionHeader })
	list := appendNames(make([]byte, 0, 64), names)
	sealed := make([]byte, len(list)+sealerNonceSize, len(list)+sealerNonceSize+len(plain)+16)
	nonce := sealed[copy(sealed, list):]
	if _, err := rand.Read(nonce); err != nil {
		return fmt.Errorf("the payload was not encrypted: %w", err)
	}
	job.Body.Payload = keys.ciphers[keys.current].seal(sealed, nonce, plain, boundTo(keys.current, names, &job.Body))
	sign(job, encryptionHeader, keys.current)
	return e.hideUniqueKey(keys, &job.Body.Unique)
}

// hideUniqueKey replaces a unique key that is a plain hash of the payload, which
// can be found by guessing.
func (e *encryption) hideUniqueKey(keys *keys, u *broker.Unique) error {
	if !strings.HasPrefix(u.Key, jobs.DerivedKeyPrefix) {
		return nil
	}
	id := e.UniqueKeyID
	if id == "" {
		id = keys.current
	}
	key, ok := keys.hashing[id]
	if !ok {
		return fmt.Errorf("%w: id %.64q, EncryptConfig.UniqueKeyID", ErrUnknownKey, id)
	}
	u.Key = hashedKeyPrefix + hex.EncodeToString(hashed(key, u.Key))
	return nil
}

func (e *encryption) DecodePayload(_ context.Context, job *jobs.Job) ([]byte, error) {
	id, ok := signed(job, encryptionHeader)
	if !ok {
		if e.AllowPlain {
			return job.Payload(), nil
		}
		return nil, dead(ErrTampered, "it is not encrypted; set AllowPlain while encryption is being introduced")
	}
	sealer := e.Keys.keys.Load().ciphers[id]
	if sealer == nil {
		return nil, putOff(job, fmt.Errorf("%w: id %.64q", ErrUnknownKey, id))
	}
	names, stored, ok := cutNames(job.Payload())
	if !ok || len(stored) < sealerNonceSize {
		return nil, dead(ErrTampered, "it is too short")
	}
	plain, err := sealer.open(stored[:sealerNonceSize], stored[sealerNonceSize:], boundTo(id, names, &job.Record().Body))
	if err != nil {
		return nil, dead(ErrTampered, "it does not open under key %.64q for type %q", id, job.Type())
	}
	return plain, nil
}

// An encrypted payload begins with the names of the headers to which it is bound, so that
// decoding binds what encoding did: a producer may not have each codec of the handlers.
// The header of Compress is not among them, since each payload is bound to it.

func appendNames(b []byte, names []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendText(b, name)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cutNames undoes appendNames and returns the rest. The names are not authenticated yet, so it takes no more of them
// than a job has headers: a payload of single zeros would become a hundred times its size.
func cutNames(b []byte) (names []string, rest []byte, ok bool) {
	number := func() (n uint64) {
		n, size := binary.Uvarint(b)
		ok = size > 0 && n <= uint64(len(b)-size)
		b = b[max(size, 0):]
		return n
	}
	left := number()
	for ok = ok && left <= broker.MaxHeaders; ok && left > 0; left-- {
		if n := number(); ok {
			names, b = append(names, string(b[:n])), b[n:]
		}
	}
	return names, b, ok
}

// boundTo returns the additional data with which a payload is sealed: what says how to
// read it.
func boundTo(key string, names []string, body *broker.Body) []byte {
	b := appendText(appendText([]byte("jobs payload 3\n"), key), body.Type)
	b = appendNames(binary.AppendVarint(b, int64(body.TypeVersion)), names)
	for _, name := range append([]string{compressionHeader}, names...) {
		value, ok := body.Headers[name]
		if b = append(b, 0); ok {
			b[len(b)-1] = 1
			b = appendText(b, value)
		}
	}
	return b
}
