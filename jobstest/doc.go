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
// retry policies, its decisions. Only the loops that claim, renew and wait are
// missing. So a test knows when everything is done, and always gets the same result.
//
// # Time
//
// Drain and [Broker.Advance] advance the clock of the store. They do not change
// time.Now, on which code under test may depend. If that matters, run the test in
// testing/synctest: there, they sleep, and both clocks agree.
package jobstest
