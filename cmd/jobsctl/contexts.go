package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// contextView is a context as -o json writes it.
type contextView struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Store   string `json:"store"` // without secrets
}

var contextColumns = []column{
	{head: "CURRENT"},
	{head: "NAME"},
	{head: "STORE", least: 20},
}

func (a *app) contexts() *cobra.Command {
	return group("context", "List stores by name, choose one, add and delete",
		`List stores by name, choose one, add and delete. They are in the configuration file:

  current: staging
  contexts:
    production:
      broker: rediss://:password@redis.internal:6379/0
    staging:
      broker: postgres://localhost/staging

--context NAME uses a store for one command, JOBS_CONTEXT for a shell. JOBS_BROKER takes
precedence over the current context.`,
		a.contextList(), a.contextUse(), a.contextSet(), a.contextDelete())
}

func (a *app) contextList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the contexts, without passwords",
		RunE: func(*cobra.Command, []string) error {
			cfg, _, err := a.readConfig()
			if err != nil {
				return err
			}
			l := a.newList(contextColumns)
			used, _ := a.source() // after an error, no context is in use
			for _, name := range slices.Sorted(maps.Keys(cfg.Contexts)) {
				store, _ := redacted(cfg.Contexts[name].Broker)
				mark := ""
				if name == used.context {
					mark = "*"
				}
				l.add(contextView{name, mark != "", store}, mark, name, store)
			}
			if err := l.end(); err != nil {
				return err
			}
			if used.context == "" && used.by != "" && !a.structured() {
				fmt.Fprintf(a.err, "%s names the store that is used.\n", used.by)
			}
			return nil
		},
	}
	a.sortFlag(cmd, contextColumns)
	return cmd
}

func (a *app) contextUse() *cobra.Command {
	return &cobra.Command{
		Use:   "use CONTEXT",
		Short: "Choose the context of further commands",
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, path, err := a.readConfig()
			if err != nil {
				return err
			}
			if _, err := cfg.named(args[0], path); err != nil {
				return err
			}
			cfg.Current = args[0]
			if err := a.writeConfig(&cfg); err != nil {
				return err
			}
			a.say("Further commands use %s.", plain(args[0]))
			for _, name := range []string{"JOBS_BROKER", "JOBS_CONTEXT"} {
				if a.getenv(name) != "" {
					fmt.Fprintf(a.err, "But %s is set and takes precedence.\n", name)
				}
			}
			return nil
		},
	}
}

func (a *app) contextSet() *cobra.Command {
	return &cobra.Command{
		Use:   "set CONTEXT",
		Short: "Add a context, or change its store",
		Long: `Add a context, or change its store. The URL comes from --broker, or else from the
standard input, which keeps it out of the shell's history.`,
		Example: "  jobsctl context set staging --broker postgres://localhost/staging\n  pass jobs/production | jobsctl context set production",
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "" || strings.Contains(args[0], ":") {
				return misuse("the name of a context must have at least one character, and no colon")
			}
			cfg, path, err := a.readConfig()
			if _, missing := os.Stat(path); err != nil && !errors.Is(missing, fs.ErrNotExist) { // a file of --config begins here, too
				return err
			}
			url := a.url
			if url == "" {
				if isTerminal(a.in) {
					fmt.Fprint(a.err, "URL: ")
				}
				line, _ := bufio.NewReader(a.in).ReadString('\n') // a read error leaves no URL
				url = strings.TrimSpace(line)
			}
			if !strings.Contains(url, "://") && !isFile(url) {
				return misuse("give the URL of a store, such as redis://localhost:6379 or file:/data/jobs.db, " +
					"with --broker or on the standard input")
			}
			if cfg.Contexts == nil {
				cfg.Contexts = make(map[string]storeConfig)
			}
			cfg.Contexts[args[0]] = storeConfig{Broker: url}
			if err := a.writeConfig(&cfg); err != nil {
				return err
			}
			store, _ := redacted(url)
			a.say("%s is %s.", plain(args[0]), plain(store))
			return nil
		},
	}
}

func (a *app) contextDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete CONTEXT",
		Short: "Delete a context; the store stays as it is",
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, path, err := a.readConfig()
			if err != nil {
				return err
			}
			if _, ok := cfg.Contexts[args[0]]; !ok {
				_, err := cfg.named(args[0], path)
				return err
			}
			delete(cfg.Contexts, args[0])
			if cfg.Current == args[0] {
				cfg.Current = ""
			}
			if err := a.writeConfig(&cfg); err != nil {
				return err
			}
			a.say("%s is deleted.", plain(args[0]))
			return nil
		},
	}
}

func (a *app) contextNames(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	cfg, _, _ := a.readConfig() // without a file there are none
	for _, name := range slices.Sorted(maps.Keys(cfg.Contexts)) {
		names = append(names, plain(name))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
