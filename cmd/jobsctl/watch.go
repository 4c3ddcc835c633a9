package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed81422ce9/jobs/broker"
)

// minWatch is the shortest interval of --watch, so that the store is not flooded.
const minWatch = time.Second

// watchFlag adds --watch, for commands that can repeat their output.
func watchFlag(flags *pflag.FlagSet, every *time.Duration) {
	spanFlag(flags, every, "watch", 0, "repeat after this time, at least 1s, until interrupted")
}

// watch calls look once, or if every is not 0 repeatedly until ctx ends. If the store goes
// away meanwhile, watch tells the user and looks again.
func (a *app) watch(ctx context.Context, every time.Duration, look func() error) error {
	for again := false; ; again = true {
		err := look()
		if every > 0 && ctx.Err() != nil {
			return nil
		}
		if again && broker.StoreFailed(err) {
			fmt.Fprintln(a.err, "jobsctl:", text(err)+"; asking again")
			err = nil
		}
		if err != nil || every == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(every, minWatch)):
			a.say("")
		}
	}
}
