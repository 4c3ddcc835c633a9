package redisbroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// inspectServer refuses a server that cannot be used, and warns of settings that lose jobs. A
// server that does not show its settings is used.
func (b *Broker) inspectServer(ctx context.Context, node *redis.Client) error {
	info, err := serverInfo(ctx, node)
	if err != nil {
		return err
	}
	version := info["redis_version"]
	if version == "" {
		b.log.Warn("redis does not tell its version; jobs needs 6.2 or newer. Let the user run INFO to have this checked.")
	} else if !atLeast(version, 6, 2) {
		return &broker.Error{Field: "server", Err: broker.ErrUnsupported,
			Hint: fmt.Sprintf("Redis %s is too old; use Redis 6.2 or newer, or Valkey", version)}
	}
	if info["redis_mode"] == "cluster" && b.store.cluster == nil {
		return &broker.Error{Field: "client", Err: broker.ErrUnsupported,
			Hint: "the server is a node of a Cluster; use redis.NewClusterClient"}
	}
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		b.log.Warn("redis may evict jobs when its memory is full; set maxmemory-policy to noeviction", "maxmemory_policy", policy)
	}
	return nil
}

// serverInfo asks a server for its INFO, which is empty if the user may not see it.
func serverInfo(ctx context.Context, node *redis.Client) (map[string]string, error) {
	text, err := node.Info(ctx).Result()
	if err != nil && (!answered(err) || refused(err) && !redis.HasErrorPrefix(err, "NOPERM")) {
		return nil, err
	}
	return parseInfo(text), nil
}

// parseInfo reads the lines "name:value" of an INFO reply.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// atLeast compares the first two numbers of a version.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	x, errX := strconv.Atoi(parts[0])
	y, errY := strconv.Atoi(parts[1])
	return errX == nil && errY == nil && (x > major || x == major && y >= minor)
}
