// Package jobstest helps to test applications that use package jobs: without a
// server, without sleeping, in parallel.
//
//	func TestSignup_SendsAWelcomeMail(t *testing.T) {
//		b := jobstest.New(t)
//		signup(t.Context(), b.Client(), "ada@example.com") // the code under test
//
//		mail := jobstest.Enqueued(t, b, WelcomeEmail, jobstest.Args(Welcome{To: "ada@example.com"}))
//		jobstest.Drain(t, b, mux) // runs it
//	}
//
// [New] makes a broker in memory for one test. [Enqueued] and [NotEnqueued] look at
// what the code under test has enqueued. [Run] runs one handler with one job.
// [Drain] runs everything that is due and, if asked, everything to come. [Tx] stands
// for a transaction. [Faults] make calls fail. [CheckIdempotent] runs a handler
// again as servers that crash would.
//
// # What is real
//
// Jobs are stored by package membroker, which passes the same conformance suite as
// the stores of production, and run by the code of jobs.Server: its middleware, its
// retry policies, its decisions. Only the loops are missing, that claim, renew and
// wait. So a test knows when everything is done, and sees the same each time.
//
// # Time
//
// Drain and [Broker.Advance] put the clock of the store ahead. They do not change
// time.Now, on which code under test may depend. If that matters, run the test in
// testing/synctest: there, they sleep, and the clock of the bubble goes along.
package jobstest
