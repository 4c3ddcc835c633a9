package servers

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Group is a Redis master with a replica, and a sentinel that knows the master as SentinelMaster. It
// serves one test.
type Group struct {
	Master, Replica string // addresses, by their roles at the start
	Sentinel        string // address

	processes []*Process
}

// PrivateGroup starts a group whose replica follows its master. The master cannot become a replica:
// after a failover it still takes writes, as a master does that the sentinels cannot reach.
func PrivateGroup() (*Group, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	g := new(Group)
	start := func(p *Process, addr string, err error) (string, error) {
		if err == nil {
			g.processes = append(g.processes, p)
		}
		return addr, err
	}
	var err error
	if g.Master, err = start(startRedis(ctx, "--save", "", "--rename-command", "SLAVEOF", "", "--rename-command", "REPLICAOF",
		"")); err != nil {
		return g, err
	}
	host, port, err := net.SplitHostPort(g.Master)
	if err == nil {
		g.Replica, err = start(startRedis(ctx, "--save", "", "--replicaof", host, port))
	}
	if err == nil {
		g.Sentinel, err = start(startSentinel(ctx, &redis.Options{Addr: g.Master}))
	}
	if err == nil {
		err = poll(ctx, nil, g.ready)
	}
	if err != nil {
		g.Stop()
	}
	return g, err
}

// ready returns nil once the sentinel knows the replica and the replica follows its master.
func (g *Group) ready(ctx context.Context) error {
	replica := redis.NewClient(&redis.Options{Addr: g.Replica, MaxRetries: -1})
	defer replica.Close()
	info, err := replica.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "master_link_status:up") {
		return errors.New("the replica does not follow its master yet")
	}
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: g.Sentinel, MaxRetries: -1})
	defer sentinel.Close()
	replicas, err := sentinel.Replicas(ctx, SentinelMaster).Result()
	if err == nil && (len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok") {
		err = errors.New("the sentinel does not know the replica yet")
	}
	return err
}

// Failover makes the sentinel promote the replica. It returns when the sentinel names the new master.
func (g *Group) Failover() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: g.Sentinel, MaxRetries: -1})
	defer sentinel.Close()
	if err := sentinel.Failover(ctx, SentinelMaster).Err(); err != nil {
		return err
	}
	return poll(ctx, nil, func(ctx context.Context) error {
		named, err := sentinel.GetMasterAddrByName(ctx, SentinelMaster).Result()
		if err == nil && strings.Join(named, ":") != g.Replica {
			err = errors.New("the sentinel names the old master")
		}
		return err
	})
}

// Stop ends the servers and removes their data.
func (g *Group) Stop() {
	for _, p := range g.processes {
		p.stop()
	}
}
