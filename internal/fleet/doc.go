// Package fleet simulates fleets of servers in virtual time. It measures how much one
// server costs beside a thousand others, how soon an idle fleet starts a job, and how
// evenly the fleet shares a burst. The servers are real. Each call to the memory store
// takes a fixed time. So the results show the policy of claims and wake-ups, not the
// speed of a store.
//
//	go test -v -run Fleet ./internal/fleet -sizes 1,10,100,1000
package fleet
