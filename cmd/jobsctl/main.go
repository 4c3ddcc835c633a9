// Command jobsctl is for operators of queues: it shows jobs, queues and workers of any
// backend, and changes them.
//
// The store is given by --broker, by JOBS_BROKER, or in a configuration file;
// see jobsctl --help.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
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

// environment is what the command uses of its process: streams, variables, directories.
type environment struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	home     func() (string, error) // the directory for configuration files

	// open opens a store; nil means backends.Open. Tests share a store in memory.
	open func(ctx context.Context, url string) (broker.Broker, error)
}

// app is one run of the command.
type app struct {
	environment
	url     string // --broker
	context string // --context
	config  string // --config
	output  outputFormat
	sort    string // --sort of the command
	yes     bool

	documents  int  // YAML documents written so far
	saidFit    bool // the user was told that columns are left out
	saidSearch bool // the user was told the size of the search

	store   broker.Broker
	changes *changes
	place   string // the context that selected the store, if any
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, env environment) int {
	a := &app{environment: env, changes: new(changes)}
	written := &sink{Writer: env.out}
	if !isTerminal(env.out) { // a view needs the terminal itself
		a.out = written
	}
	if a.open == nil {
		a.open = backends.Open
	}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if a.store != nil {
		_ = a.store.Close() // all its work is done
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w; what was done before is not undone", errInterrupted)
	}
	changed := a.changes.made.Load()
	if changed && errors.Is(err, broker.ErrUnavailable) {
		err = fmt.Errorf("%w; what was done before is not undone", err)
	}
	if err == nil && written.err != nil {
		err = fmt.Errorf("the output is not complete: %w", written.err)
	}
	if err != nil {
		fmt.Fprintln(a.err, "jobsctl:", text(err))
	}
	return exitCode(err, changed)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "jobsctl",
		Short: "Inspect and operate queues, jobs and workers",
		Long: `Inspect and operate queues, jobs and workers, on any backend.

The URL of the store comes from --broker, or from the variable JOBS_BROKER. It
begins with redis, rediss, redis+unix, redis+cluster, rediss+cluster,
redis+sentinel, rediss+sentinel, postgres, postgresql, shards or file.

If you use several stores, give each a name, a context, in the configuration
file: jobsctl/config.yaml in XDG_CONFIG_HOME, or else in the user's directory
for configuration files. --context NAME uses a store for one command, "jobsctl
context use NAME" makes it the default, and "jobsctl context --help" says more.

The ID of a job can be written in any case, and shortened to its beginning.

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
	flags.StringVar(&a.context, "context", "", "name of the store in the configuration file (default $JOBS_CONTEXT, or the current one)")
	flags.StringVar(&a.config, "config", "", "configuration file")
	a.outputFlags(root, flags)
	flags.BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return meant(cmd.Flags()) }
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misuse("%v", err) })
	root.AddCommand(a.enqueue(), a.stats(), a.history(), a.queues(), a.keys(), a.list(), a.show(), a.workers(), a.why(),
		a.cancel(), a.deleteJobs(), a.redrive(), a.reschedule(), a.edit(), a.copyJob(), a.dlq(), a.export(), a.imports(), a.move(), a.relay(),
		a.schedule(), a.workflow(), a.doctor(), a.migrate(), a.contexts(), a.events(),
		a.bench(), a.top(), a.dashboard(), a.demo(), a.version())
	a.readUse(root)
	root.InitDefaultCompletionCmd()
	needsVerb(root.Commands()[slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })])
	nameVerbs(root)
	return root
}

// broker opens the store on the first call and returns it.
func (a *app) broker(ctx context.Context) (broker.Broker, error) {
	if a.store != nil {
		return a.store, nil
	}
	from, err := a.source()
	if err != nil {
		return nil, err
	}
	a.place = from.context
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	b, err := a.open(ctx, from.url)
	if err == nil {
		a.store = a.changes.in(b)
	}
	return a.store, err
}

// destination opens the store that jobs are moved to, given by its URL or its context.
func (a *app) destination(ctx context.Context, text string) (broker.Broker, error) {
	url, err := a.storeURL(text)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	b, err := a.open(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("the store to move to: %w", err)
	}
	return a.changes.in(b), nil
}

const openTimeout = 10 * time.Second

func (a *app) inspector(ctx context.Context) (*inspect.Inspector, error) {
	b, err := a.broker(ctx)
	if err != nil {
		return nil, err
	}
	return inspect.New(b).As(a.operator()), nil
}

// inspecting returns what a command does with the store, which is opened first.
func (a *app) inspecting(run func(ctx context.Context, i *inspect.Inspector, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		i, err := a.inspector(cmd.Context())
		if err != nil {
			return err
		}
		return run(cmd.Context(), i, args)
	}
}

// operator returns who runs the command, for people to read: the user and the machine.
func (a *app) operator() string {
	who := cmp.Or(a.getenv("USER"), a.getenv("USERNAME"), "jobsctl") // USERNAME is of Windows; a container may have neither
	if host, err := os.Hostname(); err == nil {
		who += "@" + host
	}
	return strings.ToValidUTF8(who, "")
}

func (a *app) migrate() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the tables of the store",
		Long: `Create the tables of the store, or upgrade them for this version. Only Postgres
needs it. If there is nothing to do, it does nothing. Workers of the previous
version can run meanwhile.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := a.source()
			if err == nil {
				err = backends.Migrate(cmd.Context(), from.url)
				a.changes.made.Store(broker.MayHaveApplied(err))
			}
			if err == nil {
				a.say("The store is ready.")
			}
			return err
		},
	}
}

// version is set by the linker, for images that are built without Git metadata.
var version string

// build says what a program was built from. Its JSON names are a contract.
type build struct {
	Version  string `json:"version"` // the module's version
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the work tree had uncommitted changes
	Go       string `json:"go,omitempty"`
}

func programBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(version, info)
}

func buildOf(linked string, info *debug.BuildInfo) build {
	setting := make(map[string]string)
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	return build{Version: cmp.Or(linked, info.Main.Version, "(devel)"),
		Commit: setting["vcs.revision"], Modified: setting["vcs.modified"] == "true", Go: info.GoVersion}
}

// String returns the build on one line: versions of the module and of Go, and the
// commit.
func (b build) String() string {
	text, commit := b.Version, b.Commit
	if b.Modified {
		commit += ", modified"
	}
	if commit != "" {
		text += " (" + commit + ")"
	}
	if b.Go != "" {
		text += " " + b.Go
	}
	return text
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := programBuild()
			return a.answer(b, "%s version %s", cmd.Root().Name(), b)
		},
	}
}
