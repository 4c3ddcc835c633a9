// Package labels makes the names of queues for jobs that require labels: jobs of the queue images that
// require gpu and ssd are in the queue images+gpu+ssd. So stores need not know labels. See
// docs/adr/0023-labels.md.
package labels

import (
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	sep = "+"

	// Max bounds the labels of a job and of a server. A server serves one queue for each set of its
	// labels, so 16 for each of its queues.
	Max = 4

	maxLen = 32 // bytes of a label

	anyLabels = sep + "*" // follows the name of a queue: with any labels
)

// CheckLabel returns an error if label cannot be a label.
func CheckLabel(field, label string) error {
	if label == "" || len(label) > maxLen || strings.ContainsFunc(label, foreign) {
		return broker.Invalid(field, "has the label %q; use 1 to %d ASCII letters, digits and the characters - _ .", label, maxLen)
	}
	return nil
}

func foreign(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
}

// Split returns the name of the queue without labels, and its labels.
func Split(queue string) (base string, labels []string) {
	base, rest, ok := strings.Cut(queue, sep)
	if ok {
		labels = strings.Split(rest, sep)
	}
	return base, labels
}

// Add returns the name of the queue for jobs that also require labels. Order and repetitions of labels
// do not matter.
func Add(queue string, labels ...string) (string, error) {
	base, all := Split(queue)
	all = append(all, labels...)
	if len(all) == 0 {
		return queue, nil
	}
	for _, l := range all[:len(all)-len(labels)] {
		if CheckLabel("queue", l) != nil {
			return "", notLabelled(queue)
		}
	}
	for _, l := range labels {
		if err := CheckLabel("labels", l); err != nil {
			return "", err
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	switch {
	case base == "":
		return "", notLabelled(queue)
	case len(all) > Max:
		return "", broker.Invalid("labels", "are %d (%s); the limit is %d", len(all), strings.Join(all, ", "), Max)
	}
	return base + sep + strings.Join(all, sep), nil
}

// Check returns an error if Add cannot return this name.
func Check(queue string) error {
	if !strings.Contains(queue, sep) {
		return nil
	}
	name, err := Add(queue)
	if err == nil && name != queue {
		err = broker.Invalid("queue", "%q does not name its labels once each and in order; write %s", queue, name)
	}
	return err
}

func notLabelled(queue string) error {
	return broker.Invalid("queue", "%q has a plus sign, which stands between a queue and the labels that its jobs require; "+
		"choose another character, or write images+gpu for example", queue)
}

// Served returns the queues that a server with these labels serves for a queue: one for each set of
// labels, the empty set first.
func Served(queue string, labels []string) []string {
	names := []string{queue}
	for _, l := range slices.Sorted(slices.Values(labels)) {
		for _, name := range names[:len(names):len(names)] {
			names = append(names, name+sep+l)
		}
	}
	return names
}

// Count returns how many labels the jobs of a queue require.
func Count(queue string) int { return strings.Count(queue, sep) }

// Pattern reports whether a name stands for several queues: images+* stands for images and all queues
// of images with labels.
func Pattern(name string) bool { return strings.HasSuffix(name, anyLabels) }

// Means reports whether a name or a pattern stands for a queue.
func Means(name, queue string) bool {
	if base, ok := strings.CutSuffix(name, anyLabels); ok {
		of, _, _ := strings.Cut(queue, sep)
		return of == base
	}
	return name == queue
}
