// Package unittest shows how an application tests its jobs: the real client,
// server and handlers, on the in-memory backend, in virtual time.
package unittest
