package payload

import (
	"crypto/aes"
	"crypto/cipher"
)

// sealer is XAES-256-GCM (c2sp.org/XAES-256-GCM): AES-256-GCM with a key for each
// message, derived from the sealer's key and the first half of a nonce of 192
// bits. Random nonces of that size never repeat in practice. Those of AES-GCM alone
// are safe for 2³² messages only, which a busy producer reaches within days.
type sealer struct {
	block  cipher.Block
	subkey [aes.BlockSize]byte // K1 of AES-CMAC
}

const sealerNonceSize = 24

func newSealer(key []byte) *sealer {
	s := &sealer{block: mustAES(key)}
	s.block.Encrypt(s.subkey[:], s.subkey[:])
	carry := byte(0)
	for i := len(s.subkey) - 1; i >= 0; i-- {
		s.subkey[i], carry = s.subkey[i]<<1|carry, s.subkey[i]>>7
	}
	s.subkey[len(s.subkey)-1] ^= carry * 0x87
	return s
}

// message returns the cipher for the message with this nonce, and the nonce that
// this cipher takes.
func (s *sealer) message(nonce []byte) (cipher.AEAD, []byte) {
	var key [KeySize]byte
	for i := range 2 {
		block := key[i*aes.BlockSize:][:aes.BlockSize]
		copy(block, []byte{0, byte(i + 1), 'X', 0})
		copy(block[4:], nonce[:12])
		for j := range block {
			block[j] ^= s.subkey[j]
		}
		s.block.Encrypt(block, block)
	}
	aead, err := cipher.NewGCM(mustAES(key[:]))
	if err != nil {
		panic("middleware: " + err.Error()) // AES has the block size of GCM
	}
	return aead, nonce[12:]
}

func (s *sealer) seal(dst, nonce, plain, additional []byte) []byte {
	aead, nonce := s.message(nonce)
	return aead.Seal(dst, nonce, plain, additional)
}

func (s *sealer) open(nonce, sealed, additional []byte) ([]byte, error) {
	aead, nonce := s.message(nonce)
	return aead.Open(nil, nonce, sealed, additional)
}

func mustAES(key []byte) cipher.Block {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("middleware: " + err.Error()) // the size was checked
	}
	return block
}
