// Package jobstest helps to test applications that use package jobs, without a
// server, without sleeping, and in parallel.
//
//	func TestSignup_SendsAWelcomeMail(t *testing.T) {
//		b := jobstest.New(t)
//		signup(t.Context(), b.Client(), "ada@example.com") // the code under test
//
//		mail := jobstest.Enqueued(t, b, WelcomeEmail, jobstest.Args(Welcome{To: "ada@example.com"}))
//		jobstest.Drain(t, b, mux) // runs it
//	}
//
// [New] makes a broker in memory for one test. [Enqueued] and [NotEnqueued] check
// what the code under test has enqueued. [Run] runs one handler with one job.
// [Drain] runs all jobs that are due and, if asked, later ones. [Tx] stands for a
// transaction. [Faults] make calls fail. [CheckIdempotent] runs a handler again as
// after a crash of its server.
//
// # What is real
//
// Jobs are stored by package membroker, which passes the same conformance suite as
// the stores of production. They are run by the code of jobs.Server, with its
// middleware, retry policies and decisions. Only the loops that claim, renew and wait
// are missing, so that a test knows when everything is done, and always gets the same
// result.
//
// # Time
//
// Drain and [Broker.Advance] advance the clock of the store. They do not change
// time.Now. If the code under test depends on that, run the test in a
// testing/synctest bubble: there they sleep, and both clocks agree.
package jobstest
