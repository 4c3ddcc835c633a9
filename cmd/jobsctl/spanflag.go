package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed81422ce9/jobs/internal/readable"
)

// spanValue is the value of a flag that takes a duration, also in days and
// weeks.
type spanValue time.Duration

func (v *spanValue) String() string {
	if *v == 0 {
		return "0" // which help does not show as a default
	}
	return time.Duration(*v).String()
}

func (v *spanValue) Type() string { return "duration" }

func (v *spanValue) Set(text string) error {
	d, err := readable.ParseSpan(text)
	if err != nil {
		return errors.New("write a number with a unit: 30s, 15m, 2h, 3d or 1w")
	}
	*v = spanValue(d)
	return nil
}

// spanFlag is flags.DurationVar that takes 3d and 2w too.
func spanFlag(flags *pflag.FlagSet, d *time.Duration, name string, initial time.Duration, usage string) {
	*d = initial
	flags.Var((*spanValue)(d), name, usage)
}
