package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed81422ce9/jobs/internal/readable"
)

// spanValue is the value of a flag that takes a duration, with days and weeks as units
// too.
type spanValue time.Duration

func (v *spanValue) String() string {
	if *v == 0 {
		return "0" // the help leaves out a default of "0"
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

// mayBeEmpty are the flags whose text can be empty. Others have the annotation canBeEmpty where they can.
var mayBeEmpty = []string{"payload", "note"}

const canBeEmpty = "can be empty"

// meant refuses values of flags that have no meaning: columns to sort by that a list does not have, and values
// that could pass for no limit or no filter: negative numbers and durations, and an empty text. In a script that
// is a variable without a value, and a decision must not be about all queues, or another store, because of it.
func meant(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		_, rule := f.Value.(*ruleText) // its own error says what to write
		kind, value := f.Value.Type(), f.Value.String()
		_, empty := f.Annotations[canBeEmpty]
		empty = empty || slices.Contains(mayBeEmpty, f.Name)
		columns := f.Annotations[sortable]
		switch number := kind == "int" || kind == "float64" || kind == "duration"; {
		case number && !rule && strings.HasPrefix(value, "-"):
			err = misuse("--%s cannot be negative", f.Name)
		case (f.Name == "older-than" || f.Name == "newer-than") && value == "0":
			err = misuse("--%s must be more than zero", f.Name)
		case columns != nil && value != "" && !slices.Contains(columns, sortName(value)):
			err = misuse("--sort %q is not a column; use one of %s", value, strings.Join(columns, ", "))
		case kind == "string" && value == "" && !empty, kind == "stringSlice" && value == "[]":
			err = misuse("--%s is empty; leave it out, or give a value", f.Name)
		}
	})
	return err
}

// spanFlag is like flags.DurationVar, but also takes 3d and 2w.
func spanFlag(flags *pflag.FlagSet, d *time.Duration, name string, initial time.Duration, usage string) {
	*d = initial
	flags.Var((*spanValue)(d), name, usage)
}
