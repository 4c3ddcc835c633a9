package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

func localRedis(ctx context.Context) (string, error) {
	_, addr, err := startRedis(ctx, "--save", "", "--appendonly", "no")
	return "redis://" + addr + "/0", err
}

// startRedis starts a server with a directory of its own on a free loopback port.
func startRedis(ctx context.Context, settings ...string) (*Process, string, error) {
	binary, err := program("redis-server")
	if err != nil {
		return nil, "", err
	}
	return onFreePort(ctx, "redis", "KILL", func(p *Process, port string) ([]string, error) {
		return append([]string{binary, "--bind", "127.0.0.1", "--port", port, "--dir", p.Dir}, settings...), nil
	}, redisReady)
}

// redisReady speaks the protocol itself, because a client library would log every failed attempt.
func redisReady(ctx context.Context, addr string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != "+PONG\r\n" {
		err = fmt.Errorf("the answer to PING is %q", answer)
	}
	return err
}

// SentinelMaster is the name of the master of RedisSentinel.
const SentinelMaster = "main"

// localSentinel starts a sentinel that watches the server of Redis.
func localSentinel(ctx context.Context) (string, error) {
	watched, err := Redis()
	if err != nil {
		return "", err
	}
	options, err := redis.ParseURL(watched)
	if err != nil {
		return "", err
	}
	_, addr, err := startSentinel(ctx, options)
	return addr, err
}

// startSentinel starts a sentinel that watches a server.
func startSentinel(ctx context.Context, watched *redis.Options) (*Process, string, error) {
	binary, err := program("redis-server")
	if err != nil {
		return nil, "", err
	}
	host, port, err := net.SplitHostPort(watched.Addr)
	if err != nil {
		return nil, "", err
	}
	return onFreePort(ctx, "sentinel", "KILL", func(p *Process, own string) ([]string, error) {
		file := filepath.Join(p.Dir, "sentinel.conf") // which the sentinel rewrites
		conf := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel resolve-hostnames yes\nsentinel monitor %s %s %s 1\n",
			own, p.Dir, SentinelMaster, host, port)
		if watched.Password != "" {
			conf += fmt.Sprintf("sentinel auth-pass %s %s\n", SentinelMaster, watched.Password)
		}
		return []string{binary, file, "--sentinel"}, p.write(file, conf)
	}, redisReady)
}

// localRedisCluster starts three masters. Each has a third of the slots and no replica.
func localRedisCluster(ctx context.Context) (string, error) {
	const masters, slots = 3, 16384
	addrs := make([]string, masters)
	nodes := make([]*redis.Client, masters)
	bus := make([]string, masters)
	for i := range addrs {
		var err error
		// By default the bus takes the port 10000 above, which may not be a valid port.
		if bus[i], err = freePort(); err != nil {
			return "", err
		}
		_, addrs[i], err = startRedis(ctx, "--save", "", "--appendonly", "no", "--cluster-enabled", "yes", "--cluster-port", bus[i],
			"--cluster-node-timeout", "15000")
		if err != nil {
			return "", err
		}
		nodes[i] = redis.NewClient(&redis.Options{Addr: addrs[i], MaxRetries: -1})
		defer nodes[i].Close()
	}
	host, port, _ := net.SplitHostPort(addrs[0])
	for i, node := range nodes {
		first, last := i*slots/masters, (i+1)*slots/masters-1
		if err := node.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return "", err
		}
		// Different from the start, so that the nodes have no collision to resolve.
		if err := node.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return "", err
		}
		if i == 0 {
			continue
		}
		if err := node.Do(ctx, "CLUSTER", "MEET", host, port, bus[0]).Err(); err != nil {
			return "", err
		}
	}
	for _, node := range nodes {
		err := poll(ctx, nil, func(ctx context.Context) error { return clusterReady(ctx, node, masters) })
		if err != nil {
			return "", fmt.Errorf("Redis Cluster: %w", err)
		}
	}
	return strings.Join(addrs, ","), nil
}

// clusterReady returns nil once a node sees the whole cluster.
func clusterReady(ctx context.Context, node *redis.Client, masters int) error {
	info, err := node.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", masters)) {
		return fmt.Errorf("the cluster is not complete: %s", strings.ReplaceAll(info, "\r\n", " "))
	}
	return nil
}
