package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
)

// environment is what the command has of the world outside.
type environment struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	home     func() (string, error) // the directory for configuration files

	// open opens a store; nil means backends.Open. Tests share one in memory.
	open func(ctx context.Context, url string) (broker.Broker, error)
}

// app is one run of the command.
type app struct {
	environment
	url    string // --broker
	config string // --config
	output outputFormat
	yes    bool

	documents int  // of YAML that were written
	toldFit   bool // that columns were left out

	store broker.Broker
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, env environment) int {
	a := &app{environment: env}
	if a.open == nil {
		a.open = backends.Open
	}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if a.store != nil {
		_ = a.store.Close() // nothing is left to be said to it
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w; what was done before stays", errInterrupted)
	}
	if err != nil {
		fmt.Fprintln(a.err, "jobsctl:", text(err))
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "jobsctl",
		Short: "Inspect and operate queues, jobs and workers",
		Long: `Inspect and operate queues, jobs and workers, on any backend.

The URL of the store comes from --broker, or from the variable JOBS_BROKER, or
from the configuration file, which has one line:

  broker: redis://localhost:6379

The default configuration file is jobsctl/config.yaml in the user's configuration
directory. URLs begin with redis, rediss, redis+cluster, rediss+cluster,
redis+sentinel, rediss+sentinel or postgres.

Exit codes:

` + exitCodes,
		Version:       programBuild().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	needsVerb(root)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "broker", "", "URL of the store (default $JOBS_BROKER)")
	flags.StringVar(&a.config, "config", "", "configuration file")
	a.outputFlags(root, flags)
	flags.BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err.Error()} })
	root.AddCommand(a.enqueue(), a.stats(), a.queues(), a.list(), a.show(), a.workers(), a.why(),
		a.cancel(), a.deleteJobs(), a.redrive(), a.reschedule(), a.edit(), a.dlq(), a.export(), a.importJobs(), a.move(), a.relay(),
		a.schedule(), a.workflow(), a.doctor(), a.migrate(),
		a.bench(), a.top(), a.dashboard(), a.demo(), a.version())
	a.completeNames(root)
	root.InitDefaultCompletionCmd()
	needsVerb(root.Commands()[slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })])
	nameVerbs(root)
	return root
}

// broker opens the store, once.
func (a *app) broker(ctx context.Context) (broker.Broker, error) {
	if a.store != nil {
		return a.store, nil
	}
	url, err := a.brokerURL()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	a.store, err = a.open(ctx, url)
	return a.store, err
}

const openTimeout = 10 * time.Second

func (a *app) inspector(ctx context.Context) (*inspect.Inspector, error) {
	b, err := a.broker(ctx)
	if err != nil {
		return nil, err
	}
	return inspect.New(b), nil
}

func (a *app) migrate() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the tables of the store",
		Long: `Create the tables of the store, or upgrade them for this version. Only Postgres
needs it. If there is nothing to do, it does nothing. Workers of the previous
version can run meanwhile.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := a.brokerURL()
			if err == nil {
				err = backends.Migrate(cmd.Context(), url)
			}
			if err == nil {
				a.say("The store is ready.")
			}
			return err
		},
	}
}
