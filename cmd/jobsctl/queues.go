package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// policyView is a policy as -o json writes it: rules by name, durations in seconds.
type policyView map[string]any

func viewPolicy(p inspect.Policy, ofKey bool) policyView {
	view := make(policyView)
	for _, rule := range broker.Rules() {
		n := rule.Of(&p)
		switch {
		case ofKey && !rule.Key, !ofKey && !rule.Queue:
		case rule.Unit == broker.RuleFlag:
			view[rule.Name] = n == 1
		case rule.Unit == broker.RuleSpan:
			view[rule.Name+"_seconds"] = (time.Duration(n) * time.Microsecond).Seconds()
		case rule.Unit == broker.RuleOrder:
			view[rule.Name] = inspect.RuleText(rule, n)
		default:
			view[rule.Name] = n
		}
	}
	return view
}

func (a *app) queues() *cobra.Command {
	ls := a.stats()
	ls.Use, ls.Short = "ls [QUEUE…]", "List queues with their counts, like stats"
	return group("queues", "List, pause, resume or remove queues, and change their policies", "", ls,
		a.pause("pause", "Pause queues: no more jobs are claimed, running jobs continue", (*inspect.Inspector).Pause),
		a.pause("resume", "Resume paused queues", (*inspect.Inspector).Resume), a.policy(), a.removeQueue())
}

func (a *app) policy() *cobra.Command {
	return a.rulesOf(false, &cobra.Command{
		Use:   "policy QUEUE",
		Short: "Show a queue's policy, or change it",
		Long: `Show a queue's policy, or change the rules that flags set, for all workers and
producers at once. Records of completed jobs are kept only if --keep-completed
or the job's own retention says for how long.`,
	})
}

// rulesOf completes a command that shows the policy of a queue, or of a key of it, and changes
// the rules that flags set.
func (a *app) rulesOf(key bool, cmd *cobra.Command) *cobra.Command {
	given := make(map[string]string)
	for rule := range ruleFlags(key) {
		usage := rule.Help
		if rule.Zero != inspect.None {
			usage += ";\n" + inspect.None + ": " + rule.Zero
		}
		cmd.Flags().Var(&ruleText{rule, given}, flagOf(rule), usage)
	}
	cmd.RunE = a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
		req := inspect.PolicyRequest{Queue: args[0]}
		if key {
			req.Key = args[1]
		}
		if _, err := i.Queue(ctx, req.Queue); err != nil {
			return err // otherwise a mistyped name would get a policy
		}
		now, err := i.SetPolicy(ctx, req) // which sets no rule
		if err != nil {
			return err
		}
		wanted, err := inspect.Change(now, given)
		if err != nil {
			return err
		}
		p, err := i.SetPolicy(ctx, broker.PolicyFrom(req.Queue, req.Key, now, wanted))
		if err != nil {
			return err
		}
		note, known, err := i.PauseNote(ctx, req.Queue)
		if err != nil {
			return err
		}
		known = known && p.Paused && note.Paused && !key
		if a.structured() {
			view := viewPolicy(p, key)
			if known {
				view["paused_by"], view["paused_at"], view["pause_note"] = note.By, at(note.At), note.Why
			}
			return a.object(view)
		}
		paused := strconv.FormatBool(p.Paused)
		if known {
			paused += ", " + note.String()
		}
		t := a.table("PAUSED", paused)
		for rule := range ruleFlags(key) {
			t.row(heading(rule), inspect.RuleText(rule, rule.Of(&p)))
		}
		return t.end()
	})
	return cmd
}

// ruleFlags returns the rules of a queue, or of a key, that have flags. Pausing has
// none: it has its own commands.
func ruleFlags(ofKey bool) iter.Seq[*broker.Rule] {
	return func(yield func(*broker.Rule) bool) {
		for _, rule := range broker.Rules() {
			if rule.Unit != broker.RuleFlag && (ofKey && rule.Key || !ofKey && rule.Queue) && !yield(rule) {
				return
			}
		}
	}
}

// ruleText is the flag value of a rule; inspect.Change parses it. given has the texts of the
// flags that were given, by the names of their rules.
type ruleText struct {
	of    *broker.Rule
	given map[string]string
}

func (t *ruleText) String() string { return "" }

func (t *ruleText) Set(text string) error {
	t.given[t.of.Name] = text
	return nil
}

// Type returns the word for the value in the help.
func (t *ruleText) Type() string {
	switch t.of.Unit {
	case broker.RuleSpan:
		return "duration"
	case broker.RuleOrder:
		return "stop|skip"
	}
	return "count"
}

func heading(rule *broker.Rule) string {
	return strings.ToUpper(strings.ReplaceAll(rule.Name, "_", " "))
}

func flagOf(rule *broker.Rule) string { return strings.ReplaceAll(rule.Name, "_", "-") }

func (a *app) removeQueue() *cobra.Command {
	return &cobra.Command{
		Use:   "remove QUEUE",
		Short: "Remove an empty queue and its policy",
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			if err := i.RemoveQueue(ctx, args[0]); err != nil {
				return err
			}
			a.say("%s is removed.", plain(args[0]))
			return nil
		}),
	}
}

func (a *app) pause(verb, what string, do func(*inspect.Inspector, context.Context, string) error) *cobra.Command {
	var by, note string
	cmd := &cobra.Command{
		Use:   verb + " QUEUE…",
		Short: what,
		Long: what + `.
images+* means images and its queues for jobs that require labels, without those that
are created later. "jobsctl queues policy" and "jobsctl why" say who paused a queue,
when and why.`,
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			i = i.As(cmp.Or(by, a.operator())).WithNote(note)
			var errs []error
			for _, name := range args {
				queues, err := readQueues(ctx, i.Queues, name) // otherwise a mistyped name would create a queue
				errs = append(errs, err)
				for _, q := range queues {
					err := do(i, ctx, q.Name)
					if err == nil {
						a.say("%s is %sd.", plain(q.Name), verb)
					}
					errs = append(errs, err)
				}
			}
			return errors.Join(errs...)
		}),
	}
	cmd.Flags().StringVar(&by, "by", "", "who decides, for others to see (default: the user and host)")
	cmd.Flags().StringVar(&note, "note", "", "why, for others to see")
	return cmd
}
