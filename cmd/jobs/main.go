// Command jobs is for whoever operates queues: it looks at jobs, queues and
// workers on any backend, and carries out decisions about them.
//
// The store is given by --broker, by JOBS_BROKER, or in a configuration file;
// see jobs --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], environment{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, home: os.UserConfigDir})
	stop()
	os.Exit(code)
}
