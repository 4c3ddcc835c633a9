package engine

import (
	"fmt"
	"testing"
)

func TestSomeOf_NamesAFewQueues(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range loggedQueues + 3 {
		names = append(names, fmt.Sprint("q", i))
	}
	if got := someOf(names[:loggedQueues]); len(got) != loggedQueues {
		t.Errorf("%d queues\ngot  %v\nwant all", loggedQueues, got)
	}
	got := someOf(names)
	if len(got) != loggedQueues+1 || got[0] != "q0" || got[loggedQueues] != "and 3 more" || names[loggedQueues] != "q20" {
		t.Errorf("%d queues\ngot  %v\nwant the first %d, and how many more", len(names), got, loggedQueues)
	}
}
