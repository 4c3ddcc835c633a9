// Command jobsctl is for operators of queues: it shows jobs, queues and workers of any
// backend, and changes them.
//
// The store is given by --broker, by JOBS_BROKER, or in a configuration file;
// see jobsctl --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(discard{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], environment{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, home: configHome})
	stop()
	os.Exit(code)
}

// configHome returns the directory for configuration files: XDG_CONFIG_HOME on every
// system, which is where people keep such files.
func configHome() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	return os.UserConfigDir()
}

// discard drops go-redis's log lines about connections: the command's own error says
// what went wrong.
type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}
