// Package payload encodes payloads on their way into the store and decodes them:
// [Compress], [Encrypt], and [ClaimCheck], which keeps large ones elsewhere.
// [EncodePayloads] mounts them on a client, [DecodePayloads] on a server.
package payload
