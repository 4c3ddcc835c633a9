// Package archtest holds tests of the shape of the code: who imports whom, and
// how long a file may be.
package archtest
