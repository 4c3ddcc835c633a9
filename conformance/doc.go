// Package conformance is the suite that defines what a backend is: rules, each
// one sentence of package broker's contract, checked through the interface
// broker.Broker alone.
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
// Each rule runs on a store of its own, in parallel, so that the function must
// isolate them: by a key prefix, by a schema. Networked stores also set Bounce,
// and those that keep encoded records PlantLayout and PlantBody.
//
// What a backend cannot do it says in broker.Limits. A declared limit turns the
// rules about it into one about the refusal: ErrUnsupported, with nothing
// changed. Nothing is skipped.
//
// # Reading a failure
//
// A failure shows the rule and the section of package broker's comment that it
// is from, what came and what should have come, the last calls with the virtual
// time of each (h1, h2 are handles), what Store.Dump prints, and the command
// that runs that rule alone. Rules run in virtual time, sent as Now, but for
// the groups Wake, Room and Bounce, which wait for events. A rule that passes ends
// with an audit of the whole store: each job in one state, counts as listed.
//
// # Forms
//
// A store does one thing in several ways: another statement for jobs with options,
// for a settle of retries alone, for a queue that the handle knows. So the rules
// about enqueueing, claiming, leases, settling, outcomes, keeping and order run four times:
// plainly, then in forms, each on a store of its own. Jobs then have headers, a
// unique key, a given ID or a retention, or fall due instead of being pending;
// settles carry other jobs beside the rule's; claims ask other queues too. A
// failure says in which form the rule was broken, and shows the calls as they were
// made.
//
// # Adding a rule
//
// A rule is an entry of a slice in rules_<group>.go: a name that never changes,
// the section it is from, one sentence, and its check. The suite's own tests
// require that it cites a section that exists, that an odd but legal backend
// passes it, and that a mutant (a memory store with one thing wrong) fails it.
//
// # Environment
//
//   - JOBS_SEED makes the random sequences those of an earlier run.
//   - JOBS_STRESS is a duration, such as 30s, and unset by default. The random
//     and the concurrent rules then go on at least so long. Without it, a rule of
//     the group Model runs 20 sequences of 300 calls, or as many as it can in 2s, and
//     Race/Stress makes one round. Run it for minutes before you trust a backend.
//   - JOBS_PATIENCE (1) multiplies every wait for something that must happen.
//   - JOBS_CONFORMANCE_REPORT names a directory for the verdicts, from which
//     docs/backends.md is made.
package conformance
