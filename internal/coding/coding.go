// Package coding names the headers by which payload codecs mark the payloads that they
// encoded. Package middleware/payload writes them. Tools that copy or edit jobs read them.
package coding

// Headers of encoded payloads.
const (
	HeaderCompression = "jobs-compression"
	HeaderEncryption  = "jobs-encryption"
	HeaderClaim       = "jobs-claim" // the payload is a blob, which Body.PayloadRef names
)

// Claimed reports whether a job with these headers has its payload in a blob store.
func Claimed(headers map[string]string) bool {
	_, claimed := headers[HeaderClaim]
	return claimed
}

// By returns the header of a codec that encoded the payload, or "" if no codec of this
// module did.
func By(headers map[string]string) string {
	for _, name := range []string{HeaderClaim, HeaderEncryption, HeaderCompression} {
		if _, has := headers[name]; has {
			return name
		}
	}
	return ""
}
