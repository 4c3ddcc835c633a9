package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/inspect"
)

const exportHelp = `Write jobs to a file or to the standard output, one per line. "jobsctl import" takes
them into any store, with their IDs, bytes, headers, errors, counts and times.

Each line is a JSON object in ASCII. Empty and zero fields are left out:

  v                            version of the line: 1
  queue id type state          state is pending, scheduled, retry, dead,
                               completed or cancelled
  payload result               base64
  headers                      list of {name, value}
  errors                       the history, oldest first: list of {at, attempt,
                               code, class, message, stack, worker, version};
                               errors_dropped counts older ones
  reason suppressed            of a dead job
  created_at run_at finished_at deadline      times, in UTC
  deliveries failures crashes snoozes epoch   counts
  priority max_retries crash_budget timeout retention backoff unique
  key correlation_id idempotency_key source type_version payload_ref given_id

Texts that are not valid UTF-8 are {"base64": …}. Running jobs are refused.`

func (a *app) export() *cobra.Command {
	var f filter
	var out string
	var remove bool
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Export jobs to a file",
		Long:    exportHelp,
		Example: "  jobsctl dlq export --queue mail --out dead.ndjson --delete\n  jobsctl export --state scheduled | gzip >scheduled.gz",
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, _ []string) error {
			if remove && (out == "" || out == "-") {
				return misuse("--delete needs a file; give --out")
			}
			return a.runExport(ctx, i, &f, out, remove)
		}),
	}
	f.flags(cmd.Flags(), "")
	f.deadFlags(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "-", "file to write; it must not exist; - is the standard output")
	cmd.Flags().BoolVar(&remove, "delete", false, "delete dead, completed or cancelled jobs once they are on disk")
	f.rateFlag(cmd.Flags())
	return cmd
}

func (a *app) runExport(ctx context.Context, i *inspect.Inspector, f *filter, out string, remove bool) (err error) {
	if f.state == "" {
		return misuse("give --state")
	}
	if err := f.find(ctx, i); err != nil {
		return err
	}
	if err := a.confirm(ctx, remove, "delete %s jobs once they are in %s", f.state, plain(out)); err != nil {
		return err
	}
	w, log, flush := a.out, *a, (func() error)(nil)
	log.out = a.err // the jobs go to the standard output
	if out != "" && out != "-" {
		file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return misuse("the file %s exists; give another name", out)
		}
		if err != nil {
			return err
		}
		w, log.out, flush = file, a.out, file.Sync
		if err := syncDir(filepath.Dir(out)); err != nil {
			return errors.Join(err, file.Close())
		}
		defer func() { err = errors.Join(err, file.Sync(), file.Close()) }()
	}
	d := &decision{Verb: inspect.Verb{Name: "export", Done: "exported"}}
	d.Do = func(s inspect.Selection, ctx context.Context) (inspect.Report, error) { return s.Export(ctx, w) }
	if remove {
		d.Done = "exported and deleted"
		d.Do = func(s inspect.Selection, ctx context.Context) (inspect.Report, error) {
			return s.ExportAndDelete(ctx, w, flush)
		}
	}
	return log.carryOut(ctx, i, d, f, 0)
}

// syncDir syncs the directory of a new file, so that its name survives a crash.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (a *app) importJobs() *cobra.Command {
	var cfg inspect.ImportConfig
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import exported jobs",
		Long: `Import the jobs that "jobsctl export" wrote, each in its state, with its ID, bytes,
errors, counts and times. If FILE is -, read the standard input.

The command reports refused lines by number and imports the others. You can run
it again: it counts jobs that exist already and does not change them. Nor does it
store jobs again that ran or were deleted since: a queue remembers their IDs for an
hour (DUPLICATE SPAN of "jobsctl queues policy").`,
		Example: "  jobsctl import --broker postgres://… dead.ndjson",
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			in, err := a.file(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			return a.runImport(ctx, i, in, cfg)
		}),
	}
	cmd.Flags().StringVarP(&cfg.Queue, "queue", "q", "", "queue to import into (default: the queue in each line)")
	cmd.Flags().BoolVar(&cfg.Check, "dry-run", false, "only check the lines")
	return cmd
}

func (a *app) runImport(ctx context.Context, i *inspect.Inspector, in io.Reader, cfg inspect.ImportConfig) error {
	shown := a.progress("imported", 0)
	cfg.OnProgress = func(r inspect.ImportReport) { shown.at(r.Lines) }
	r, err := i.Import(ctx, in, cfg)
	shown.end()
	refused := make([]map[string]any, 0, len(r.Refusals))
	for _, f := range r.Refusals {
		refused = append(refused, map[string]any{"line": f.Line, "queue": f.Queue, "id": f.ID, "error": f.Err.Error(), "holder": f.Holder})
	}
	if err := a.object(map[string]any{
		"verb": "import", "dry_run": cfg.Check, "lines": r.Lines, "done": r.Done, "repeated": r.Repeated, "gone": r.Gone,
		"refused": r.Refused, "refusals": refused,
	}); err != nil {
		return err
	}
	done := "imported."
	if cfg.Check {
		done = "could be imported; nothing was changed."
	}
	a.say("%s of %s %s", number(r.Done), plural(r.Lines, "line"), done)
	if there := r.Repeated - r.Gone; there > 0 {
		a.say("%s existed already.", plural(there, "job"))
	}
	if r.Gone > 0 {
		a.say("%s not imported: ran or deleted since, and the queue remembers the ID (DUPLICATE SPAN).", plural(r.Gone, "job"))
	}
	return cmp.Or(err, a.sayRefused(r, func(f inspect.LineRefusal) string { return fmt.Sprintf("line %d", f.Line) }))
}

// sayRefused says which lines were refused, and why. It returns an error if any were.
func (a *app) sayRefused(r inspect.ImportReport, name func(inspect.LineRefusal) string) error {
	for _, f := range r.Refusals {
		a.say("  %s: %s", name(f), plain(text(f.Err)))
	}
	if more := r.Refused - len(r.Refusals); more > 0 {
		a.say("  and %s more", number(more))
	}
	if r.Refused > 0 {
		return errRefused
	}
	return nil
}
