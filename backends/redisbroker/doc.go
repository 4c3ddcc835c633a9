// Package redisbroker is the broker that keeps its jobs in Redis 6.2 or newer,
// or Valkey: one server, a group with Sentinels, or a Cluster.
package redisbroker
