package redisbroker

import (
	"log/slog"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// Config is how a Broker uses its store. The zero value is good.
type Config struct {
	// Prefix begins every key, so that several applications, or several
	// environments of one, can share a server. Brokers that share queues must use
	// the same prefix. It must not contain braces or control characters. Defaults to "jobs".
	Prefix string

	// Buckets is the number of hashes over which the bodies of a queue's jobs
	// are spread, from 1 to 64. A queue keeps the number with which it was created.
	// With many buckets, a queue of a million jobs is nearly as fast as a short
	// one, and easier to move between the nodes of a Cluster, which move one key at
	// a time. Jobs with IDs chosen by the application share one bucket, unless the
	// IDs have 26 bytes, like ULIDs. With one bucket, a claim of a single job costs
	// the server a tenth less. Defaults to 64.
	Buckets int

	// Replicas is how many replicas must have a new job before Enqueue answers
	// that it was accepted. Then a failover loses no accepted job, unless a replica
	// without the job is promoted; Sentinels avoid that, but cannot exclude it. If
	// fewer replicas acknowledge the job within ReplicaTimeout, it is stored, but
	// Enqueue returns an error that leaves this open ([broker.MayHaveApplied] is
	// true); to check again, enqueue the same ID again. Each Enqueue takes longer by
	// a round trip to the replicas. Claims and settles never wait: if a failover
	// loses them, their jobs run again. Defaults to 0: Enqueue does not wait.
	Replicas int

	// ReplicaTimeout is how long Enqueue waits for Replicas, in whole milliseconds.
	// Defaults to one second.
	ReplicaTimeout time.Duration

	// Logger receives what an operator should know: settings of the server that
	// can lose jobs, leases that a lost reply left behind. Payloads, names of jobs
	// and passwords are never logged. Defaults to slog.Default.
	Logger *slog.Logger
}

const (
	defaultPrefix  = "jobs"
	defaultBuckets = 64
	defaultAwaited = time.Second
	maxBuckets     = 64
	maxPrefix      = 128
	priorities     = broker.Priorities
)

// withDefaults checks a configuration and fills in what it leaves out.
func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if len(c.Prefix) > maxPrefix || strings.ContainsAny(c.Prefix, "{}") {
		return c, broker.Invalid("prefix", "%.40q has a brace or over %d bytes; braces route keys in Redis Cluster", c.Prefix, maxPrefix)
	}
	if err := broker.CheckName("prefix", c.Prefix); err != nil {
		return c, err
	}
	if c.Buckets == 0 {
		c.Buckets = defaultBuckets
	}
	if c.Buckets < 1 || c.Buckets > maxBuckets {
		return c, broker.Invalid("buckets", "is %d; use 1 to %d", c.Buckets, maxBuckets)
	}
	if c.Replicas < 0 {
		return c, broker.Invalid("replicas", "is %d; use 0 for none", c.Replicas)
	}
	if c.ReplicaTimeout == 0 {
		c.ReplicaTimeout = defaultAwaited
	}
	if c.ReplicaTimeout < time.Millisecond || c.ReplicaTimeout > callTimeout/2 {
		return c, broker.Invalid("replica timeout", "is %v; use 1ms to %v", c.ReplicaTimeout, callTimeout/2)
	}
	c.Logger = guard.Logger(c.Logger)
	return c, nil
}
