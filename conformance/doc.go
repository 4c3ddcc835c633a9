// Package conformance is the suite that a backend has to pass. Each of its rules
// is one sentence of package broker's contract, and is checked only through the
// interface broker.Broker.
//
// # Adopting it
//
// A backend's whole test is a function that makes an empty store and opens
// handles on it:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, func(conformance.TB) *conformance.Store {
//			s := membroker.NewStore()
//			return &conformance.Store{Open: func(conformance.TB) broker.Broker { return s.Open() }}
//		})
//	}
//
// Rules run in parallel, each on a store of its own. The function must isolate
// these stores, for example by a key prefix or a schema. Networked stores also set
// Bounce; stores that keep encoded records set PlantLayout and PlantBody.
//
// A backend declares what it cannot do in broker.Limits. The rules about a
// declared limit then check the refusal instead: ErrUnsupported, with nothing
// changed. Nothing is skipped.
//
// # Reading a failure
//
// A failure shows the rule and the section of package broker's comment that it
// is from, what the rule got and wanted, the last calls with the virtual time of
// each (h1, h2 are handles), what Store.Dump prints, and the command that runs
// that rule alone. Rules run in virtual time, sent as Now; only the groups Wake,
// Room and Bounce wait for events in real time. A rule that passes ends with an
// audit of the whole store: each job is in one state, and the counts agree with
// the lists.
//
// # Forms
//
// A store often has several paths for one thing: another statement for jobs with options, for a settle
// that has only retries, for a queue that the handle knows. So the rules about enqueueing, claiming,
// leases, settling, outcomes, keeping and order run four times, each on a store of its own: first as
// written, then in other forms. In these, jobs have headers, a unique key, a given ID or a retention, or
// fall due instead of being pending; settles carry other jobs beside the rule's; claims also name other
// queues. A failure names the form, and shows the calls as they were made.
//
// # Adding a rule
//
// A rule is an entry of a slice in rules_<group>.go: a name that never changes,
// the section that it comes from, one sentence, and its check. The suite's own tests require that the
// section exists, that an odd but legal backend passes the rule, and that a mutant (a memory store with
// one thing wrong) fails it.
//
// # Environment
//
//   - JOBS_SEED repeats the random sequences of an earlier run.
//   - JOBS_STRESS is how long the random and the concurrent rules run at least, such as 30s. Without it,
//     a rule of the group Model runs 20 sequences of 300 calls, or as many as it can in 2s, and
//     Race/Stress makes one round. Run it for minutes before you trust a backend.
//   - JOBS_PATIENCE (1) multiplies every wait for something that must happen.
//   - JOBS_CONFORMANCE_REPORT names a directory for the verdicts, from which
//     docs/backends.md is made.
package conformance
