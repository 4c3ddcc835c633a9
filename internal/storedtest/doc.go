// Package storedtest tests that a release reads what earlier releases stored. Write stores the same jobs of every kind
// each time; a test of the backend compares the resulting keys, rows or records with a golden file,
// testdata/stored/current. The files beside it are of earlier releases. Each is loaded into a store of its own, in
// which View must see what its release saw, and Work must be able to go on with the old leases, keys and limits.
//
// A release that changes a stored form must still read the old one. After such a change
//
//	go test ./backends/... ./internal/storedtest -run Stored -update
//
// renews the golden files. CHANGELOG.md has to say what changed: its table of stored forms has a checksum of each
// file. A release adds a copy of each under its version, as docs/releasing.md says.
package storedtest
