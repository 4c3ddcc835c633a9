// Package readmetest holds the test that keeps code in the documentation equal
// to code that is compiled and tested. A block of Go in a Markdown file names
// the file it was cut from, and the region of it:
//
//	<!-- from examples/quickstart/main.go#server -->
//
// right before its opening fence. In the Go file the region stands between
//
//	// begin server
//	// end server
//
// without which the whole file is meant. `go test ./internal/readmetest
// -update` cuts all blocks anew.
package readmetest
