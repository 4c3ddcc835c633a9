// Package readmetest tests the documentation. Its main test keeps code there equal
// to code that is compiled and tested: a block of Go in a Markdown file names the
// file and the region that it was copied from,
//
//	<!-- from examples/quickstart/main.go#server -->
//
// right before its opening fence. In the Go file the region is between
//
//	// begin server
//	// end server
//
// Without a region the block is the whole file. `go test ./internal/readmetest
// -update` renews all blocks.
package readmetest
