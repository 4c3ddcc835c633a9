// Package integration holds the tests that need several processes: workers
// that are killed, stopped and resumed, connections that lose an answer,
// stores that go away. The workers are the test binary itself, run again.
package integration
