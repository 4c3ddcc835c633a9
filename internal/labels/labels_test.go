package labels

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestAdd_NamesOneQueueForEachSetOfLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		queue  string
		labels []string
		want   string
	}{
		{"images", nil, "images"},
		{"images", []string{"gpu"}, "images+gpu"},
		{"images", []string{"ssd", "gpu"}, "images+gpu+ssd"},
		{"images", []string{"gpu", "ssd", "gpu"}, "images+gpu+ssd"},
		{"images+gpu", []string{"gpu"}, "images+gpu"},
		{"images+ssd", []string{"gpu", "A-1.b_2"}, "images+A-1.b_2+gpu+ssd"},
		{"images+d", []string{"c", "b", "a"}, "images+a+b+c+d"},
		{"bücher und mehr", []string{"gpu"}, "bücher und mehr+gpu"},
	} {
		got, err := Add(c.queue, c.labels...)
		if err != nil || got != c.want {
			t.Errorf("Add(%q, %q) = %q, %v; want %q", c.queue, c.labels, got, err, c.want)
			continue
		}
		if again, err := Add(got, c.labels...); err != nil || again != got || Check(got) != nil {
			t.Errorf("added again, the labels of %q give %q, %v; Check says %v", got, again, err, Check(got))
		}
	}
}

func TestAdd_RefusesWhatIsNoLabelOrNoQueue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		queue  string
		labels []string
		field  string
		says   string
	}{
		{"images", []string{""}, "labels", `the label ""`},
		{"images", []string{"a+b"}, "labels", `the label "a+b"`},
		{"images", []string{"*"}, "labels", `the label "*"`},
		{"images", []string{"canary=10%"}, "labels", `"canary=10%"`},
		{"images", []string{"größe"}, "labels", "ASCII letters"},
		{"images", []string{strings.Repeat("x", 33)}, "labels", "1 to 32"},
		{"images", []string{"a", "b", "c", "d", "e"}, "labels", "are 5 (a, b, c, d, e); the limit is 4"},
		{"images+a+b", []string{"c", "d", "e"}, "labels", "limit is 4"},
		{"c++", []string{"gpu"}, "queue", `"c++" has a plus sign`},
		{"+gpu", []string{"gpu"}, "queue", "plus sign"},
	} {
		_, err := Add(c.queue, c.labels...)
		refused(t, err, c.field, c.says)
	}
	for name, says := range map[string]string{
		"c++": "plus sign", "a+": "plus sign", "+a": "plus sign", "a + b": "plus sign", "images+*": "plus sign",
		"images+ssd+gpu": "write images+gpu+ssd", "images+gpu+gpu": "write images+gpu",
	} {
		refused(t, Check(name), "queue", says)
	}
	for _, name := range []string{"images", "images+gpu", "", "{}"} {
		if err := Check(name); err != nil {
			t.Errorf("Check(%q) = %v", name, err)
		}
	}
	if _, err := Add("images", strings.Repeat("x", 32)); err != nil {
		t.Errorf("a label of 32 bytes is refused: %v", err)
	}
}

func refused(t *testing.T, err error, field, says string) {
	t.Helper()
	var e *broker.Error
	if !errors.As(err, &e) || !errors.Is(err, broker.ErrInvalid) || e.Field != field || !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %v; want one of %s that says %q", err, field, says)
	}
}

// What a server with some labels serves is what Add makes of each set of them.
func TestServed_IsEverySetOfLabels(t *testing.T) {
	t.Parallel()
	all := []string{"ssd", "gpu", "canary", "eu"}
	names := Served("images", all)
	var want []string
	for set := range 1 << len(all) {
		var some []string
		for i, l := range all {
			if set&(1<<i) != 0 {
				some = append(some, l)
			}
		}
		name, err := Add("images", some...)
		if err != nil {
			t.Fatal(err)
		}
		if want = append(want, name); Count(name) != len(some) {
			t.Errorf("%s has %d labels, want %d", name, Count(name), len(some))
		}
	}
	if names[0] != "images" {
		t.Errorf("the first is %q, want the queue itself", names[0])
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("a server with the labels %q serves %q, want %q", all, names, want)
	}
}

func TestMeans_APatternStandsForAQueueAndThoseBesideIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, queue string
		want        bool
	}{
		{"images", "images", true}, {"images", "images+gpu", false}, {"images+gpu", "images+gpu", true},
		{"images+*", "images", true}, {"images+*", "images+gpu+ssd", true}, {"images+*", "images2", false},
		{"images+*", "imag", false}, {"images+*", "other+images", false}, {"images+gpu+*", "images+gpu", false},
	} {
		if got := Means(c.name, c.queue); got != c.want {
			t.Errorf("%q means %q: %v, want %v", c.name, c.queue, got, c.want)
		}
	}
	if !Pattern("images+*") || Pattern("images+gpu") || Pattern("images*") {
		t.Error("images+* is a pattern, images+gpu and images* are none")
	}
}
