package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/labels"
)

// WithLabels restricts the job to servers whose Config.Labels include all of
// these labels: "gpu", for example. A label consists of 1 to 32 ASCII letters,
// digits and the characters - _ . A job has at most 4 labels. WithLabels without
// arguments undoes an earlier one. The default is none.
//
// Jobs with labels have a queue of their own beside the one that WithQueue names;
// QueueWithLabels returns its name. JobInfo and Job show that name, and operators
// see a queue like any other: it has its own policy, counts and unique keys.
func WithLabels(required ...string) Option {
	return optionFunc(func(c *enqueueConfig) { c.labels = required })
}

// WithLabelShare makes a share of the jobs require a label, 0 to 100 percent: to try
// a new version on a few servers, for example. A hash of the label and a key decides:
// the job's partition key, or its unique key if it has none, or else its ID. So all
// jobs with the same key are treated alike, and a higher percentage only adds keys.
// Keys that enqueue middleware sets count, too. Zero percent undoes an earlier
// WithLabelShare.
//
// The jobs that require the label wait for servers that have it. To end a trial, set
// the share to zero, and give the label to all servers until no job requires it.
//
// A task that is kept and enqueued later, by a schedule or a workflow, has no ID
// yet: without a key it is refused.
func WithLabelShare(label string, percent int) Option {
	return optionFunc(func(c *enqueueConfig) { c.share = labelShare{label, percent, true} })
}

// QueueWithLabels returns the name of the queue for jobs of queue that require these
// labels: "images+gpu+ssd" for images with ssd and gpu. The order of the labels and
// repetitions make no difference. The error is ErrInvalid.
func QueueWithLabels(queue string, required ...string) (string, error) {
	name, err := labels.Add(queue, required...)
	if err == nil {
		err = broker.CheckQueue(name)
	}
	return name, err
}

// labelShare holds the arguments of WithLabelShare.
type labelShare struct {
	label   string
	percent int
	set     bool
}

// place puts the job into the queue of its labels, after enqueue middleware has chosen
// the queue and the key.
func (c *enqueueConfig) place(job *broker.NewJob) error {
	required := c.labels
	if c.share.set {
		takes, err := c.share.takes(job)
		if err != nil {
			return err
		}
		if takes {
			required = append(slices.Clone(required), c.share.label)
		}
	}
	if len(required) == 0 {
		return labels.Check(job.Queue)
	}
	name, err := labels.Add(job.Queue, required...)
	if err != nil {
		return err
	}
	job.Queue = name
	return nil
}

// takes reports whether a job is among those that require the label.
func (s labelShare) takes(job *broker.NewJob) (bool, error) {
	if err := labels.CheckLabel("label share", s.label); err != nil {
		return false, err
	}
	if s.percent < 0 || s.percent > 100 {
		return false, broker.Invalid("label share", "of %s is %d percent; use 0 to 100", s.label, s.percent)
	}
	if s.percent == 0 {
		return false, nil
	}
	by := cmp.Or(job.Body.Key, job.Body.Unique.Key, job.ID)
	if by == "" {
		return false, broker.Invalid("label share", "of %s needs a key: this task is kept and has no ID yet; give it one with WithPartitionKey",
			s.label)
	}
	sum := sha256.Sum256([]byte(s.label + "\x00" + by)) // neither has a zero byte
	return binary.BigEndian.Uint64(sum[:])%100 < uint64(s.percent), nil
}

// checkLabels refuses an invalid value of Config.Labels.
func checkLabels(own []string) error {
	if len(own) > labels.Max {
		return broker.Invalid("Labels", "are %d (%s); the limit is %d, since each doubles the number of queues that the server serves",
			len(own), strings.Join(own, ", "), labels.Max)
	}
	for i, l := range own {
		if err := labels.CheckLabel("Labels", l); err != nil {
			return err
		}
		if slices.Contains(own[:i], l) {
			return broker.Invalid("Labels", "has %q twice; remove one", l)
		}
	}
	return nil
}

// withLabelQueues adds the queues for jobs that require some of the server's labels to
// the weights and limits. A queue that is added has the weight and the limit of its base
// queue, unless the maps name it.
func withLabelQueues(own []string, weights, limits map[string]int) (allWeights, allLimits map[string]int, err error) {
	allWeights, allLimits = maps.Clone(weights), maps.Clone(limits)
	for base, weight := range weights {
		if labels.Count(base) > 0 {
			continue // a queue of labels is served without its base queue
		}
		for _, name := range labels.Served(base, own)[1:] {
			if err := broker.CheckQueue(name); err != nil {
				return nil, nil, broker.Invalid("Labels", "make an invalid name of a queue: %v", err)
			}
			if _, named := weights[name]; !named {
				allWeights[name] = weight
			}
			limit, limited := limits[base]
			if _, named := limits[name]; limited && !named {
				allLimits[name] = limit
			}
		}
	}
	return allWeights, allLimits, nil
}

// labelsFirst returns weights for strict order in which, of queues with the same weight,
// those with more labels come first: fewer servers can run their jobs.
func labelsFirst(queues map[string]int) map[string]int {
	weights := make(map[string]int, len(queues))
	for name, weight := range queues {
		weights[name] = weight*(labels.Max+1) + labels.Count(name)
	}
	return weights
}
