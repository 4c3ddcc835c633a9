package payload

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	"github.com/seed81422ce9/jobs/broker"
)

// KeySize is the size of an encryption key in bytes.
const KeySize = 32

// Keyring holds the keys of Encrypt by their IDs, one of which is current: new
// payloads are encrypted with it. Printed or logged in any way, a keyring shows
// IDs and never a key. It is safe for concurrent use.
//
// To rotate without losing a job: add the new key to the keyrings of all
// workers; then make it current at all producers; remove the old key when no job
// that was enqueued before is left, including dead and retained ones.
type Keyring struct {
	keys atomic.Pointer[keys]
}

type keys struct {
	current string
	ciphers map[string]*sealer
	hashing map[string][]byte // keys that hash unique keys, derived from the others
}

// NewKeyring returns a keyring of keys by their IDs. New payloads are encrypted
// with the key whose ID is current. An ID has up to 255 bytes. It is stored with
// each job, in clear, and must never be reused for another key. A key has KeySize
// random bytes, from crypto/rand or a key management service; do not use a
// password. The keys are copied.
func NewKeyring(current string, keys map[string][]byte) (*Keyring, error) {
	k := new(Keyring)
	return k, k.Replace(current, keys)
}

// Replace replaces the keys. Payloads are encrypted and decrypted with the new
// ones from then on. If it fails, the keyring is unchanged.
func (k *Keyring) Replace(current string, bytes map[string][]byte) error {
	next := &keys{current: current, ciphers: make(map[string]*sealer, len(bytes)), hashing: make(map[string][]byte, len(bytes))}
	for id, key := range bytes {
		if err := broker.CheckName("key id", id); err != nil {
			return fmt.Errorf("middleware: %w", err)
		}
		if len(key) != KeySize {
			return fmt.Errorf("middleware: %w", broker.Invalid("key", "%q has %d bytes; use %d random ones", id, len(key), KeySize))
		}
		next.ciphers[id] = newSealer(key)
		next.hashing[id] = hashed(key, "jobs unique key 1")
	}
	if next.ciphers[current] == nil {
		return fmt.Errorf("middleware: %w", broker.Invalid("current", "%q is not among the keys", current))
	}
	k.keys.Store(next)
	return nil
}

// String returns the IDs, and which of them is current.
func (k *Keyring) String() string {
	if k == nil || k.keys.Load() == nil {
		return "Keyring(empty)"
	}
	now := k.keys.Load()
	ids := make(map[string]bool, len(now.ciphers))
	for id := range now.ciphers {
		ids[id] = id == now.current
	}
	return fmt.Sprintf("Keyring(current by id: %v)", ids)
}

// hashed returns the HMAC-SHA256 of message under key.
func hashed(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}
