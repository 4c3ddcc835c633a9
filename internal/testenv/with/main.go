// Command with runs a command with one set of test servers for all of it,
// instead of one set per test binary:
//
//	go run ./internal/testenv/with go test ./...
//
// The command finds the servers in its environment, where those that were
// there before stay. They end with the command.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/seed81422ce9/jobs/internal/testenv/servers"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: with COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	err := run(os.Args[1], os.Args[2:]...)
	servers.Stop()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "with:", err)
		os.Exit(1)
	}
}

func run(name string, args ...string) error {
	gets := []func() (string, error){servers.Redis, servers.RedisSentinel, cluster, servers.Postgres, servers.PgBouncer}
	urls := make([]string, len(gets))
	var g errgroup.Group
	for i, get := range gets {
		g.Go(func() (err error) {
			urls[i], err = get()
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, key := range []string{servers.EnvRedis, servers.EnvRedisSentinel, servers.EnvRedisCluster, servers.EnvPostgres,
		servers.EnvPgBouncer} {
		if err := os.Setenv(key, urls[i]); err != nil {
			return err
		}
	}
	// The choice of a way is done: the tests find all servers in the environment.
	if err := os.Unsetenv(servers.EnvWay); err != nil {
		return err
	}
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	// A terminal interrupts the command as well. This program waits for its end, so that the servers
	// outlive it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	return cmd.Wait()
}

func cluster() (string, error) {
	nodes, err := servers.RedisCluster()
	return strings.Join(nodes, ","), err
}
