package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// keyView is a key as -o json writes it.
type keyView struct {
	Key     string     `json:"key"`
	Pending int64      `json:"pending"`
	Active  int64      `json:"active"`
	Depth   int64      `json:"depth"`
	Oldest  *time.Time `json:"oldest,omitempty"`
	Blocked string     `json:"blocked,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Head    string     `json:"head,omitempty"`
	Policy  policyView `json:"policy"`
}

func viewKey(k inspect.KeyInfo) keyView {
	return keyView{k.Key, k.Pending, k.Active, k.Depth, at(k.Oldest), k.Block.String(), at(k.Until), k.Head, viewPolicy(k.Policy, true)}
}

func (a *app) keys() *cobra.Command {
	return group("keys", "List, pause or resume the keys of a queue, and change their policies", "", a.listKeys(), a.keyPolicy(),
		a.pauseKeys("pause", "Pause keys: no more of their jobs are claimed, running jobs continue", (*inspect.Inspector).PauseKey),
		a.pauseKeys("resume", "Resume paused keys", (*inspect.Inspector).ResumeKey))
}

func (a *app) listKeys() *cobra.Command {
	var top int
	cmd := &cobra.Command{
		Use:   "ls QUEUE [KEY…]",
		Short: "List the keys of a queue",
		Long: `List the keys of a queue that have unfinished jobs, or their own policy. DEPTH
counts the jobs that are pending, scheduled, waiting or in retry. BLOCKED
says why no job of the key may start now: paused, order (the job HEAD comes first),
active (the limit of running jobs is reached) or rate.`,
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			if len(args) > 1 && top > 0 {
				return misuse("give a KEY or --top, not both")
			}
			info, err := i.Queue(ctx, args[0])
			if err != nil {
				return err
			}
			l := a.newList(keyColumns)
			for k, err := range a.someKeys(ctx, i, args[0], args[1:], top) {
				if err != nil {
					return err
				}
				l.add(viewKey(k), k.Key, k.Pending, k.Active, k.Depth, k.Oldest, blockText(k, info.Now), k.Head, keyRules(k.Policy))
			}
			return l.end()
		}),
	}
	cmd.Flags().IntVar(&top, "top", 0, "show only this number of keys, those with the most jobs first")
	a.sortFlag(cmd, keyColumns)
	return cmd
}

var keyColumns = []column{
	{head: "KEY", least: 8},
	{head: "PENDING"},
	{head: "ACTIVE"},
	{head: "DEPTH", rank: 2},
	{head: "OLDEST", rank: 4},
	{head: "BLOCKED"},
	{head: "HEAD", rank: 3},
	{head: "POLICY", rank: 1, least: 8},
}

// someKeys lists the named keys of a queue, or its top largest, or all.
func (a *app) someKeys(ctx context.Context, i *inspect.Inspector, queue string, names []string, top int) iter.Seq2[inspect.KeyInfo, error] {
	if len(names) == 0 && top == 0 {
		return i.Keys(ctx, queue)
	}
	return func(yield func(inspect.KeyInfo, error) bool) {
		for _, name := range names {
			if k, err := i.Key(ctx, queue, name); !yield(k, err) || err != nil {
				return
			}
		}
		if len(names) > 0 {
			return
		}
		keys, all, err := i.TopKeys(ctx, queue, top)
		if err != nil {
			yield(inspect.KeyInfo{}, err)
			return
		}
		if !all {
			fmt.Fprintln(a.err, "jobsctl: the queue has more keys than the command examined; these are among the first 10,000 by name")
		}
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

func blockText(k inspect.KeyInfo, now time.Time) string {
	if k.Until.After(now) {
		return fmt.Sprintf("%s, for %s", k.Block, span(k.Until.Sub(now)))
	}
	return k.Block.String()
}

// keyRules returns the policy of a key as one line.
func keyRules(p inspect.Policy) string {
	var rules []string
	for _, rule := range broker.Rules() {
		if n := rule.Of(&p); n != 0 && rule.Unit != broker.RuleFlag {
			rules = append(rules, flagOf(rule)+"="+inspect.RuleText(rule, n))
		}
	}
	return strings.Join(rules, " ")
}

func (a *app) pauseKeys(verb, short string, do func(*inspect.Inspector, context.Context, string, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " QUEUE KEY…",
		Short: short,
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			if _, err := i.Queue(ctx, args[0]); err != nil {
				return err // otherwise a mistyped name would create a queue
			}
			for _, key := range args[1:] {
				if err := do(i, ctx, args[0], key); err != nil {
					return err
				}
				a.say("%s of %s is %sd.", plain(key), plain(args[0]), verb)
			}
			return nil
		}),
	}
}

func (a *app) keyPolicy() *cobra.Command {
	return a.rulesOf(true, &cobra.Command{
		Use:   "policy QUEUE KEY",
		Short: "Show a key's policy, or change it",
		Long: `Show the policy of one key of a queue, or change the rules that flags set. A rule of
the key replaces the queue's rule for each key (--key-max-active, --key-rate and
--key-max-depth of "queues policy").`,
	})
}
