package pgbroker

import "testing"

// The floor rises to what was drawn before a look, once all transactions that
// may have drawn it have ended, and never over a delta that is left.
func TestDeltas_FloorWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	var d deltas
	step := func(what string, xmin, xmax, last int64, first *int64, want int64) {
		t.Helper()
		l := d.look()
		l.xmin, l.xmax, l.last, l.first = xmin, xmax, last, first
		d.raise(l)
		if d.floor != want {
			t.Errorf("%s: the floor is %d, want %d", what, d.floor, want)
		}
	}
	left := int64(7)
	step("nothing is known", 100, 110, 5, nil, 0)
	step("5 were drawn before, by transactions below 120", 100, 120, 9, nil, 0)
	step("one of them is open", 119, 130, 12, nil, 0)
	step("all have ended", 120, 130, 12, nil, 5)
	step("12 were drawn before, 7 is left", 140, 140, 12, &left, 6)
	step("and 7 is folded", 150, 150, 12, nil, 12)
	step("a server with another past", 10, 10, 3, nil, 0)
}
