package membroker

import (
	"encoding/binary"
	"strings"
)

// sizes is what pack writes before each header: the lengths of its key and its
// value, four bytes each.
const sizes = 8

// pack copies a payload as a job keeps it: with the headers behind it, up to its
// capacity. There they need no room in the records of jobs without any, let
// bodies be shared, and are nothing that the collector has to follow.
func (a *arena) pack(payload []byte, headers map[string]string) []byte {
	if len(headers) == 0 {
		return a.copy(payload)
	}
	packed := append(a.take(len(payload) + packedSize(headers))[:0], payload...)
	for k, v := range headers {
		packed = binary.LittleEndian.AppendUint32(packed, uint32(len(k)))
		packed = binary.LittleEndian.AppendUint32(packed, uint32(len(v)))
		packed = append(append(packed, k...), v...)
	}
	return packed[:len(payload)]
}

func packedSize(headers map[string]string) int {
	size := 0
	for k, v := range headers {
		size += sizes + len(k) + len(v)
	}
	return size
}

// packedHeaders are those behind a payload.
func packedHeaders(payload []byte) []byte { return payload[len(payload):cap(payload)] }

// unpack makes headers of packed ones. Their text is added to one that the jobs
// of a batch share.
func unpack(packed []byte, text *strings.Builder) map[string]string {
	if len(packed) == 0 {
		return nil
	}
	at := text.Len()
	text.Write(packed)
	s := text.String()[at:]
	headers := make(map[string]string)
	for len(packed) > 0 {
		key := sizes + int(binary.LittleEndian.Uint32(packed))
		end := key + int(binary.LittleEndian.Uint32(packed[4:]))
		headers[s[sizes:key]] = s[key:end]
		packed, s = packed[end:], s[end:]
	}
	return headers
}
