package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Shells have a builtin named jobs, which comes before any program. So each
// script first defines a function that gives verbs to the program and leaves
// the builtin what it knows: nothing, flags of one dash, and job numbers.
const (
	posixFunction = `jobs() {
	case "${1-}" in
	"" | -[!-]* | %*) builtin jobs "$@" ;;
	*) env jobs "$@" ;;
	esac
}

`
	fishFunction = `function jobs
    if test (count $argv) -eq 0; or string match -qr '^(-[^-]|%|[0-9])' -- $argv[1]
        builtin jobs $argv
    else
        command jobs $argv
    end
end

`
)

// shells are those that a script can be written for.
var shells = map[string]struct {
	function string
	script   func(root *cobra.Command, w io.Writer) error
}{
	"bash":       {posixFunction, func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
	"zsh":        {posixFunction, (*cobra.Command).GenZshCompletion},
	"fish":       {fishFunction, func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
	"powershell": {"", (*cobra.Command).GenPowerShellCompletionWithDesc},
}

func (a *app) completion() *cobra.Command {
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Write a completion script for a shell",
		Long: `Write a script that completes commands, flags and queues in a shell.

Shells have a builtin named jobs. The script keeps it for jobs without arguments,
jobs -l and jobs %1; all other calls run this program. Without the script, run
the program as "env jobs".

SHELL is bash, zsh, fish or powershell. Load the script when the shell starts:`,
		Example: `  source <(env jobs completion bash)   # in ~/.bashrc, after bash-completion
  source <(env jobs completion zsh)    # in ~/.zshrc, after compinit
  command jobs completion fish | source   # in ~/.config/fish/config.fish`,
		Args:      exactly("SHELL"),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			shell, ok := shells[args[0]]
			if !ok {
				return &usageError{fmt.Sprintf("unknown shell %q; use one of %s", args[0], strings.Join(names, ", "))}
			}
			if _, err := io.WriteString(a.out, shell.function); err != nil {
				return err
			}
			return shell.script(cmd.Root(), a.out)
		},
	}
}

// completeNames offers queues and states wherever they are asked for.
func (a *app) completeNames(cmd *cobra.Command) {
	states := cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp)
	for name, complete := range map[string]cobra.CompletionFunc{"queue": a.queueNames, "state": states} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails for flags that do not exist
		}
	}
	if strings.Contains(cmd.Use, "QUEUE") {
		cmd.ValidArgsFunction = a.queueNames
	}
	if strings.Contains(cmd.Use, "SCHEDULE") {
		cmd.ValidArgsFunction = a.scheduleNames
	}
	for _, sub := range cmd.Commands() {
		a.completeNames(sub)
	}
}

// queueNames are the queues of the store, or none if it does not answer at
// once: whoever types is not kept waiting.
func (a *app) queueNames(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	if i, err := a.inspector(ctx); err == nil {
		infos, _ := i.Queues(ctx)
		for _, q := range infos {
			names = append(names, plain(q.Name))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
