package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// imports returns the command import, with the verbs that read other frameworks'
// stores.
func (a *app) imports() *cobra.Command {
	cmd := a.importJobs()
	cmd.Short = "Import exported jobs, or those of asynq or River"
	cmd.AddCommand(a.importAsynq(), a.importRiver())
	return cmd
}

// peer is the store of another framework, from which jobs are imported.
type peer struct {
	name  string // the framework's name
	look  func(ctx context.Context, names []string) (queues []peerQueue, works bool, err error)
	read  func(ctx context.Context, queue string, err *error) iter.Seq2[broker.NewJob, error]
	rest  func(ctx context.Context, dry bool) error // imports what is not in queues; nil if there is nothing
	close func()

	queues []peerQueue
	works  bool // programs of the framework are running and may take jobs
}

type peerQueue struct {
	name   string
	paused bool
	found  []stateCount // jobs to import
	left   []stateCount // jobs that cannot be imported
}

// stateCount is the number of jobs in a state; the state has the framework's own name.
type stateCount struct {
	state string
	n     int64
}

func total(counts []stateCount) (n int64) {
	for _, c := range counts {
		n += c.n
	}
	return n
}

// listed returns a text such as "2 active, 1 aggregating".
func listed(counts []stateCount) string {
	var parts []string
	for _, c := range counts {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", number(int(c.n)), c.state))
		}
	}
	return strings.Join(parts, ", ")
}

func byState(counts []stateCount) map[string]int64 {
	m := make(map[string]int64)
	for _, c := range counts {
		m[c.state] = c.n
	}
	return m
}

// peerImport is the configuration of an import from a peer, by flags.
type peerImport struct {
	from     string
	queues   []string
	remember time.Duration
	dry      bool
}

// defaultRemember is how long an import can be repeated without adding a job twice:
// more time than a cut-over takes.
const defaultRemember = 7 * 24 * time.Hour

// importFrom completes a command that imports the jobs of a peer, which is at a URL such as the text says.
func (a *app) importFrom(url string, cmd *cobra.Command, open func(ctx context.Context, url string) (*peer, error)) *cobra.Command {
	var p peerImport
	flags := cmd.Flags()
	flags.StringVar(&p.from, "from", "", "URL of "+url+" (default $JOBS_FROM)")
	flags.StringSliceVarP(&p.queues, "queue", "q", nil, "queues to import (default: all)")
	spanFlag(flags, &p.remember, "remember", defaultRemember, "how long the command can be run again without adding a job twice")
	flags.BoolVar(&p.dry, "dry-run", false, "only read and check")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, url := cmd.Context(), cmp.Or(p.from, a.getenv("JOBS_FROM"))
		if url == "" {
			return misuse("give --from")
		}
		from, err := open(ctx, url)
		if err != nil {
			return err
		}
		defer from.close()
		i, err := a.inspector(ctx)
		if err != nil {
			return err
		}
		if from.queues, from.works, err = from.look(ctx, p.queues); err != nil {
			return unread(err)
		}
		err = a.runPeer(ctx, i, &p, from)
		if from.rest == nil || len(p.queues) > 0 || err != nil && !errors.Is(err, errRefused) && !errors.Is(err, errUnsettled) {
			return err
		}
		return errors.Join(err, from.rest(ctx, p.dry))
	}
	return cmd
}

// unread wraps an error of the first read of a peer, before anything was changed.
func unread(err error) error {
	if err == nil || errors.Is(err, broker.ErrNotFound) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

// peerResult is the result of the import of one queue.
type peerResult struct {
	peerQueue
	imported int
	last     inspect.ImportReport // of the last pass
	first    inspect.ImportReport
}

// maxPasses bounds how often a queue is read. The first pass imports, and each further
// one verifies: it finds the imported jobs, and adds those that arrived since.
const maxPasses = 3

// errUnsettled says that jobs still arrive in a queue of the peer.
var errUnsettled = errors.New("new jobs came in each pass; stop the programs that enqueue there, and run the command again")

func (a *app) runPeer(ctx context.Context, i *inspect.Inspector, p *peerImport, from *peer) error {
	var busy []string
	for _, q := range from.queues {
		if !q.paused && total(q.found)+total(q.left) > 0 {
			busy = append(busy, plain(q.name))
		}
	}
	if !p.dry {
		ask := from.works && len(busy) > 0
		if err := a.confirm(ctx, ask, "import while %s works on %s, which is not paused: jobs can run in both", from.name,
			strings.Join(busy, ", ")); err != nil {
			return err
		}
	}
	var all error
	for _, q := range from.queues {
		r := &peerResult{peerQueue: q}
		err := a.importQueue(ctx, i, p, from, r)
		all = errors.Join(all, err, a.sayPeer(p, from, r, err))
		if err != nil && !errors.Is(err, errUnsettled) {
			break
		}
	}
	return all
}

// importQueue imports a queue and verifies that all of its jobs have arrived.
func (a *app) importQueue(ctx context.Context, i *inspect.Inspector, p *peerImport, from *peer, r *peerResult) error {
	if !p.dry {
		if err := remember(ctx, i, r.name, p.remember); err != nil {
			return err
		}
	}
	for pass := range maxPasses {
		shown := a.progress(plain(r.name), int(total(r.found)))
		cfg := inspect.ImportConfig{Check: p.dry, OnProgress: func(r inspect.ImportReport) { shown.at(r.Lines) }}
		var broken error
		report, err := i.Restore(ctx, from.read(ctx, r.name, &broken), cfg)
		shown.end()
		if pass == 0 {
			r.first = report
		}
		r.last, r.imported = report, r.imported+report.Done
		if err = errors.Join(err, broken); err != nil || p.dry || pass > 0 && report.Done == 0 {
			return err
		}
	}
	return errUnsettled
}

// remember makes a queue refuse known IDs for at least span, so that a repeated import does not bring
// back jobs that have run.
func remember(ctx context.Context, i *inspect.Inspector, queue string, span time.Duration) error {
	now, err := i.Policy(ctx, queue)
	if errors.Is(err, broker.ErrInvalid) {
		return nil // no queue here can have this name; each of its jobs is refused with that reason
	}
	if err == nil && now.DuplicateSpan < span {
		_, err = i.SetPolicy(ctx, inspect.PolicyRequest{Queue: queue, DuplicateSpan: &span})
	}
	return err
}

// sayPeer reports the result of the import of a queue.
func (a *app) sayPeer(p *peerImport, from *peer, r *peerResult, failed error) error {
	verified := failed == nil && !p.dry
	here := r.last.Repeated
	refused := make([]map[string]any, 0, len(r.last.Refusals))
	for _, f := range r.last.Refusals {
		refused = append(refused, map[string]any{"id": f.ID, "error": f.Err.Error(), "holder": f.Holder})
	}
	if err := a.object(map[string]any{
		"verb": "import", "from": from.name, "queue": r.name, "dry_run": p.dry, "found": byState(r.found), "left": byState(r.left),
		"read": r.last.Lines, "done": r.imported, "repeated": r.first.Repeated, "gone": r.last.Gone, "refused": r.last.Refused,
		"verified": verified, "refusals": refused,
	}); err != nil {
		return err
	}
	a.say("%s: %s in %s.", plain(r.name), cmp.Or(listed(r.found), "nothing"), from.name)
	if p.dry {
		a.say("  %s of %s could be imported; nothing was changed.", number(r.last.Done), plural(r.last.Lines, "job"))
	} else {
		a.say("  %s imported; %s existed already.", plural(r.imported, "job"), number(r.first.Repeated))
	}
	if verified {
		a.say("  Read again, and found here: %s of %s; %s of them ran or were deleted since.", number(here), plural(r.last.Lines, "job"),
			number(r.last.Gone))
	}
	if left := listed(r.left); left != "" {
		a.say("  Not imported: %s.", left)
	}
	err := a.sayRefused(r.last, func(f inspect.LineRefusal) string { return plain(f.ID) })
	if failed != nil {
		return nil
	}
	return err
}
