// Package storedtest tests that a release reads what the ones before it stored. Write leaves jobs of every kind
// in a store, always the same; a test of the backend compares the keys, rows or records that are there then with a
// golden file, testdata/stored/current. The files beside it are of earlier releases. Each is put into a store of its
// own, in which View must see what its release saw, and Work goes on: by the old leases, keys and limits.
//
// A stored form changes by a release that can still read the old one. Then
//
//	go test ./backends/... ./internal/storedtest -run Stored -update
//
// writes the golden files anew, and CHANGELOG.md has to say what changed: its table of stored forms has a checksum of
// each file. A release leaves a copy of each under its version, as docs/releasing.md says.
package storedtest
