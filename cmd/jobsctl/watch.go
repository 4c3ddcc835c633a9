package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"
)

// minWatch is the least time between looks, whatever was asked for.
const minWatch = time.Second

// watchFlag is for commands that can look again and again.
func watchFlag(flags *pflag.FlagSet, every *time.Duration) {
	spanFlag(flags, every, "watch", 0, "repeat after this time, at least 1s, until interrupted")
}

// watch looks once, or again and again until ctx ends.
func (a *app) watch(ctx context.Context, every time.Duration, look func() error) error {
	for {
		err := look()
		if every > 0 && ctx.Err() != nil {
			return nil
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
