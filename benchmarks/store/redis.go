package store

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

type redisServer struct {
	*process
	addr   string
	client *redis.Client
	spaces map[string]int
}

// startRedis starts a server without persistence.
func startRedis(ctx context.Context, dir string, port int) (Store, error) {
	binary, err := program("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	addr, err := address(port)
	if err != nil {
		return nil, err
	}
	p, err := newProcess(dir, "redis", "KILL")
	if err != nil {
		return nil, err
	}
	s := &redisServer{process: p, addr: addr, spaces: map[string]int{}}
	s.client = redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1})
	_, number, _ := net.SplitHostPort(addr)
	err = p.start(ctx, func(ctx context.Context) error { return s.client.Ping(ctx).Err() },
		binary, "--port", number, "--bind", "127.0.0.1", "--dir", p.dir, "--save", "", "--appendonly", "no", "--databases", "64")
	if err != nil {
		p.stop()
		return nil, err
	}
	return s, nil
}

func (s *redisServer) Empty(ctx context.Context, name string) (string, error) {
	if _, ok := s.spaces[name]; !ok {
		s.spaces[name] = len(s.spaces) + 1
	}
	return fmt.Sprintf("redis://%s/%d", s.addr, s.spaces[name]), s.Drop(ctx, name)
}

func (s *redisServer) Drop(ctx context.Context, name string) error {
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "select", s.spaces[name])
		p.FlushDB(ctx)
		p.Do(ctx, "select", 0)
		return nil
	})
	return err
}

func (s *redisServer) Warm(context.Context) error { return nil }

func (s *redisServer) Calm(ctx context.Context) error { return s.client.Ping(ctx).Err() }

func (s *redisServer) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.client.Info(ctx, section).Result()
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields, err
}

func (s *redisServer) Use(ctx context.Context) (Use, error) {
	cpu, err := s.info(ctx, "cpu")
	if err != nil {
		return Use{}, err
	}
	stats, err := s.info(ctx, "stats")
	if err != nil {
		return Use{}, err
	}
	user, err1 := strconv.ParseFloat(cpu["used_cpu_user"], 64)
	system, err2 := strconv.ParseFloat(cpu["used_cpu_sys"], 64)
	calls, err3 := strconv.ParseInt(stats["total_commands_processed"], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return Use{}, fmt.Errorf("INFO of the Redis server is not understood: %v %v %v", err1, err2, err3)
	}
	return Use{CPU: time.Duration((user + system) * 1e9), Calls: calls}, nil
}

func (s *redisServer) Bytes(ctx context.Context, _ string) (int64, error) {
	memory, err := s.info(ctx, "memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(memory["used_memory"], 10, 64)
}

func (s *redisServer) Describe(ctx context.Context) (string, error) {
	server, err := s.info(ctx, "server")
	return "Redis " + server["redis_version"] + `, save "", appendonly no, loopback TCP`, err
}

func (s *redisServer) Stop() {
	s.client.Close()
	s.stop()
}
