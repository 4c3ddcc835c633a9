package payload

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
	"github.com/seed81422ce9/jobs/internal/field"
)

// EncryptConfig configures Encrypt. Keys is required.
type EncryptConfig struct {
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
// version, and the headers of the codecs before Encrypt in the list. So it cannot be
// used for a task of another type, or be read in another way. Encrypt does not prevent
// anybody from copying a whole job and storing it a second time.
//
// Only payloads are encrypted. Types, headers, results, error messages and the
// keys that the application chooses (of tenants, idempotency and uniqueness)
// are stored in clear. A unique key that the client derived from the payload is
// replaced by its HMAC-SHA256 under a key of the keyring, so that the payload
// cannot be found by guessing; it still shows which payloads are equal. The size
// of the payload shows too.
//
// An encrypted job has the ID of its key in the header jobs-encryption, and a
// payload of 40 bytes more. A job whose payload was tampered with is dead
// (ErrTampered). If the keyring lacks the key (ErrUnknownKey), the job is snoozed
// without a charge, for 5 seconds at first and up to 10 minutes, until a worker
// has the key.
//
// The cipher is XAES-256-GCM: it derives a key for each payload from a random
// nonce of 24 bytes, so that one key is safe for any number of payloads.
func Encrypt(cfg EncryptConfig) Codec {
	if cfg.Keys == nil || cfg.Keys.keys.Load() == nil {
		field.Refuse("EncryptConfig.Keys", "is empty; make it with NewKeyring")
	}
	return &encryption{EncryptConfig: cfg}
}

type encryption struct {
	EncryptConfig
	inner []string // headers of the codecs before this one
}

func (e *encryption) EncodePayload(_ context.Context, job *broker.NewJob) error {
	keys := e.Keys.keys.Load()
	plain := job.Body.Payload
	nonce := make([]byte, sealerNonceSize, sealerNonceSize+len(plain)+16)
	if _, err := rand.Read(nonce); err != nil {
		return fmt.Errorf("the payload was not encrypted: %w", err)
	}
	job.Body.Payload = keys.ciphers[keys.current].seal(nonce, nonce, plain, e.boundTo(keys.current, &job.Body))
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
	stored := job.Payload()
	if len(stored) < sealerNonceSize {
		return nil, dead(ErrTampered, "it is too short")
	}
	plain, err := sealer.open(stored[:sealerNonceSize], stored[sealerNonceSize:], e.boundTo(id, &job.Record().Body))
	if err != nil {
		return nil, dead(ErrTampered, "it does not open under key %.64q for type %q", id, job.Type())
	}
	return plain, nil
}

// boundTo returns the additional data with which a payload is sealed: what says how to
// read it. Headers that the job does not have are left out, so that handlers can have a
// codec that producers do not have yet.
func (e *encryption) boundTo(key string, body *broker.Body) []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b := text(text([]byte("jobs payload 2\n"), key), body.Type)
	b = binary.AppendVarint(b, int64(body.TypeVersion))
	for _, name := range e.inner {
		if value, ok := body.Headers[name]; ok {
			b = text(text(b, name), value)
		}
	}
	return b
}
