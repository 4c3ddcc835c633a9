// Package integration has the tests that need several processes: workers that
// are killed, stopped and resumed, connections that lose an answer, and stores
// that fail. The worker processes run the test binary itself.
package integration
