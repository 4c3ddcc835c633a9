// Package archtest tests the shape of the code: which package imports which, how long a file may be,
// and what package jobs exports.
package archtest
