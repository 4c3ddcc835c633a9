package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// unstored runs a command that needs no store.
func unstored(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, environment{in: strings.NewReader(""), out: &o, err: &e, getenv: func(string) string { return "" },
		home: func() (string, error) { return t.TempDir(), nil }})
	return o.String(), e.String(), code
}

func TestVerbs_AGroupAloneListsItsVerbsAndFails(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"dlq"}, {"queues"}, {"schedule"}, {"workflow"}, {"completion"}} {
		out, errs, code := unstored(t, args...)
		if code != 2 || out != "" || !strings.Contains(errs, "Available Commands:") {
			t.Errorf("jobsctl %q exits with %d, want 2, and lists no commands on stderr:\n%s%s", args, code, out, errs)
		}
	}
}

func TestVerbs_ATypoIsAnsweredWithWhatWasMeant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"stat", "stats"}, {"dlq redirve", "redrive"}, {"dlq lst", "ls"}, {"retry", "redrive"}, {"describe", "show"}, {"queues pasue", "pause"},
		{"completion bsh", "bash"}, {"schedule lits", "list"}, {"DELETE", "delete"},
	} {
		out, errs, code := unstored(t, strings.Fields(c.args)...)
		if code != 2 || out != "" || !strings.Contains(errs, "did you mean") || !strings.Contains(errs, c.want) {
			t.Errorf("jobsctl %s exits with %d, want 2, and %q is not suggested:\n%s%s", c.args, code, c.want, out, errs)
		}
	}
	if _, errs, code := unstored(t, "xyzzy"); code != 2 || strings.Contains(errs, "did you mean") {
		t.Errorf("jobsctl xyzzy exits with %d, want 2, and is not like any command: %s", code, errs)
	}
}

func TestVerbs_TheSameWordsWorkInEveryGroup(t *testing.T) {
	t.Parallel()
	a := &app{environment: environment{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}}
	root := a.root()
	for typed, want := range map[string]string{
		"ls": "ls", "list": "ls", "delete": "delete", "rm": "delete", "requeue": "redrive",
		"dlq ls": "dlq list", "dlq list": "dlq list", "dlq redrive": "dlq redrive", "dlq requeue": "dlq redrive", "dlq delete": "dlq purge",
		"queues ls": "queues ls", "queue list": "queues ls", "queues delete": "queues remove", "queue rm": "queues remove",
		"workers ls": "workers ls", "worker list": "workers ls", "workers mail": "workers", "worker": "workers",
		"schedule ls": "schedule list", "schedules list": "schedule list", "schedule remove": "schedule delete",
		"workflow ls": "workflow list", "workflows list": "workflow list", "workflow rm": "workflow delete",
	} {
		cmd, _, err := root.Find(strings.Fields(typed))
		if err != nil || cmd.CommandPath() != "jobsctl "+want {
			t.Errorf("jobsctl %s is %s (error %v), want jobsctl %s", typed, cmd.CommandPath(), err, want)
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		names := make(map[string]string)
		for _, sub := range cmd.Commands() {
			for _, name := range append(slices.Clone(sub.Aliases), sub.Name()) {
				if other := names[name]; other != "" {
					t.Errorf("%s %s is %s and %s", cmd.CommandPath(), name, other, sub.Name())
				}
				names[name] = sub.Name()
			}
			walk(sub)
		}
	}
	walk(root)
}

func TestVerbs_TheVersionIsAVerbAndAFlag(t *testing.T) {
	t.Parallel()
	byVerb, _, code := unstored(t, "version")
	byFlag, _, _ := unstored(t, "--version")
	if code != 0 || byVerb != byFlag || !strings.HasPrefix(byVerb, "jobsctl version ") {
		t.Errorf("jobsctl version exits with %d and says %q, --version says %q", code, byVerb, byFlag)
	}
	if out, _, code := unstored(t, "version", "--json"); code != 0 || !strings.Contains(out, `"version":"`) {
		t.Errorf("jobsctl version --json exits with %d and says %s", code, out)
	}
}
