package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// change is how to edit a job's payload, by flags.
type change struct {
	payload, file           string
	given                   bool // --payload was given
	raw, redrive, diff, dry bool
}

func (a *app) edit() *cobra.Command {
	var c change
	cmd := a.aboutJob(&cobra.Command{
		Use:   "edit ID",
		Short: "Replace a job's payload, and redrive the job if it is dead",
		Long: `Replace the payload of a pending, scheduled, retry or dead job. The new payload
comes from --payload, from a file, or from the editor in VISUAL or EDITOR. It
must be JSON and is stored without insignificant spaces; --raw takes any bytes.
A payload that is encoded (compressed, encrypted) or elsewhere can be replaced only
with --raw, by encoded bytes; one that is a blob (claim check) cannot be replaced.

If the job ran or was redriven since it was read, the edit is refused and nothing
is changed. The old payload is not kept; --diff shows both before you confirm.
If the payload is the same, nothing is edited; --redrive still redrives the job.`,
		Example: "  jobsctl edit 01J… --redrive\n  jobsctl edit 01J… --payload '{\"user\":2}' --diff --redrive",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			c.given = cmd.Flags().Changed("payload")
			if c.given && c.file != "" {
				return misuse("give --payload or --payload-file, not both")
			}
			return nil
		},
	}, func(ctx context.Context, i *inspect.Inspector, j *broker.Job) error { return a.editJob(ctx, i, &c, j) })
	flags := cmd.Flags()
	flags.StringVarP(&c.payload, "payload", "p", "", "the new payload")
	flags.StringVar(&c.file, "payload-file", "", "file with the new payload; - is the standard input")
	flags.BoolVar(&c.raw, "raw", false, "take any bytes, unchanged")
	flags.BoolVar(&c.redrive, "redrive", false, "redrive the job, which must be dead, after the edit")
	flags.BoolVar(&c.diff, "diff", false, "show old and new payload; they may contain secrets")
	flags.BoolVar(&c.dry, "dry-run", false, "change nothing")
	return cmd
}

func (a *app) editJob(ctx context.Context, i *inspect.Inspector, c *change, j *broker.Job) error {
	if c.redrive && j.State != broker.StateDead {
		return broker.About(broker.WrongState(broker.OpRedrive, j.State, j.Holder), broker.OpRedrive.String(), j.Queue, j.ID)
	}
	payload, err := a.newPayload(ctx, c, j)
	if err != nil {
		return err
	}
	same := bytes.Equal(payload, j.Payload)
	what := "replace the payload of"
	switch {
	case same && !c.redrive:
		a.say("The payload is the same; nothing was changed.")
		return nil
	case same && c.dry:
		a.say("The payload is the same, the job would be redriven; nothing was changed.")
		return nil
	case same: // perhaps an earlier edit could not redrive the job
		a.say("The payload is the same.")
		what = "redrive"
	case c.diff:
		fmt.Fprint(a.err, difference(content(j.Payload), content(payload)))
	}
	if err := inspect.Editable(j, c.raw); err != nil && !same {
		return err
	}
	if c.dry {
		a.say("The payload would have %s, it has %s; nothing was changed.", plural(len(payload), "byte"), number(len(j.Payload)))
		return nil
	}
	if err := a.confirm(ctx, true, "%s %s", what, plain(j.ID)); err != nil {
		return err
	}
	epoch := j.Epoch
	if !same {
		edit := i.Edit
		if c.raw {
			edit = i.EditRaw
		}
		if err := edit(ctx, j, payload); err != nil {
			return err
		}
		epoch++
		a.say("%s has a new payload of %s.", plain(j.ID), plural(len(payload), "byte"))
	}
	if c.redrive {
		if err := a.redriveEdited(ctx, i, j, epoch); err != nil {
			if !same {
				err = fmt.Errorf("the payload was replaced, but the job was not redriven: %w", err)
			}
			return err
		}
	}
	return a.object(map[string]any{"queue": j.Queue, "id": j.ID, "payload_bytes": len(payload), "redriven": c.redrive})
}

// redriveEdited redrives a job, unless it has changed since it had the epoch.
func (a *app) redriveEdited(ctx context.Context, i *inspect.Inspector, j *broker.Job, epoch int64) error {
	r, err := i.Select(inspect.Query{Queue: j.Queue, IDs: []string{j.ID}, Suppressed: true}).
		Where(func(found *broker.Job) bool { return found.Epoch == epoch }).Redrive(ctx)
	switch {
	case err != nil:
		return err
	case r.Done != 1:
		return fmt.Errorf("%w: it was changed meanwhile", broker.ErrWrongState)
	}
	a.say("1 of 1 job redriven.")
	return nil
}

// newPayload gets the new payload from the flag, the input or an editor, and checks it.
func (a *app) newPayload(ctx context.Context, c *change, j *broker.Job) (p []byte, err error) {
	switch {
	case c.given:
		p = []byte(c.payload)
	case c.file != "":
		p, err = a.read(c.file)
	default:
		p, err = a.inEditor(ctx, c, j)
	}
	if err != nil || c.raw || len(p) == 0 && len(j.Payload) == 0 {
		return p, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, p); err != nil {
		return nil, misuse("the new payload is not JSON; nothing was changed (--raw takes any bytes)")
	}
	return compact.Bytes(), nil
}

func (a *app) inEditor(ctx context.Context, c *change, j *broker.Job) ([]byte, error) {
	editor := strings.Fields(cmp.Or(strings.TrimSpace(a.getenv("VISUAL")), a.getenv("EDITOR")))
	if len(editor) == 0 {
		return nil, misuse("give --payload or --payload-file, or set VISUAL or EDITOR")
	}
	dir, err := os.MkdirTemp("", "jobsctl-edit-") // readable by this user only
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	content, name := j.Payload, filepath.Join(dir, "payload")
	if !c.raw {
		name += ".json"
		if text, ok := readable.Indented(content); ok {
			content = append(text, '\n')
		}
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, editor[0], append(editor[1:], name)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.err, a.err
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, errInterruptedEarly
	}
	if err != nil {
		return nil, fmt.Errorf("the editor: %w; nothing was changed", err)
	}
	edited, err := a.read(name)
	if err == nil && bytes.Equal(edited, content) {
		return j.Payload, nil
	}
	return edited, err
}

// difference returns the lines of both texts from the first to the last one that
// differs.
func difference(before, after string) string {
	old, new := strings.Split(before, "\n"), strings.Split(after, "\n")
	head := 0
	for head < min(len(old), len(new)) && old[head] == new[head] {
		head++
	}
	tail := 0
	for tail < min(len(old), len(new))-head && old[len(old)-1-tail] == new[len(new)-1-tail] {
		tail++
	}
	var b strings.Builder
	for _, line := range old[head : len(old)-tail] {
		b.WriteString("- " + line + "\n")
	}
	for _, line := range new[head : len(new)-tail] {
		b.WriteString("+ " + line + "\n")
	}
	return b.String()
}
