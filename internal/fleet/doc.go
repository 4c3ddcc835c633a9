// Package fleet simulates fleets of servers in virtual time: how much one server
// costs beside a thousand others, how soon an idle fleet starts a job, and how
// evenly it shares a burst. The servers are real ones on the store in memory, whose
// calls take a fixed time. So it shows the policy of claims and wakes, and nothing
// of the speed of a store.
//
//	go test -v -run Fleet ./internal/fleet -sizes 1,10,100,1000
package fleet
