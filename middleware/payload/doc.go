// Package payload changes payloads on their way into the store and back:
// [Compress], [Encrypt], and [ClaimCheck], which keeps large ones elsewhere.
// [EncodePayloads] mounts them on a client, [DecodePayloads] on a server.
package payload
