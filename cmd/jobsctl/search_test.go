package main

import (
	"testing"

	"go.uber.org/goleak"
)

// A search of unknown size shows nothing, so nothing runs beside it.
func TestSearch_OfUnknownSizeRunsNothing(t *testing.T) {
	others := goleak.IgnoreCurrent()
	s := new(app).search("looking", &filter{})
	defer s.end()
	goleak.VerifyNone(t, others)
	s.at(3)
}
