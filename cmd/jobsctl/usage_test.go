package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// output runs the command with its own environment.
func output(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(t, env, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// The help of each verb is as in the golden files. It needs no store.
func TestUsage_HelpOfEachVerb(t *testing.T) {
	t.Parallel()
	c := &cli{t: t}
	a := &app{environment: environment{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}}
	root := a.root()
	known := make(map[string]bool)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())
		out, errs := c.both(0, append(path[1:], "--help")...)
		if errs != "" || cmd.Short == "" {
			t.Errorf("%s --help says %s", cmd.CommandPath(), errs)
		}
		for line := range strings.Lines(out) {
			if n := len([]rune(line)); n > 121 {
				t.Errorf("%s --help has a line of %d characters, which few terminals show in one:\n%s", cmd.CommandPath(), n, line)
			}
		}
		name := strings.Join(path, "_")
		known[name+".golden"] = true
		golden(t, filepath.Join("help", name), out)
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" { // cobra writes its texts
				walk(sub)
			}
		}
	}
	walk(root)
	files, err := os.ReadDir(filepath.Join("testdata", "help"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("testdata/help/%s is of no verb: remove it", f.Name())
		}
	}
}

// shell returns a script that finds the program by its name, and the store in the environment.
func shell(t *testing.T, url, name, script string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, []string{"JOBS_BROKER=" + url})
	cmd.Path, cmd.Args = path, []string{name, "-c", script}
	return cmd
}

// A negative rate or number could pass for no limit.
func TestUsage_NoFlagTakesANegativeValue(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", "a", "--delay", "1h")
	for _, args := range [][]string{
		{"reschedule", "--all", "--yes", "--rate", "-5"}, {"reschedule", "a", "--in", "-5m"}, {"ls", "--limit", "-1"}, {"ls", "--watch", "-2s"},
		{"ls", "--older-than", "-1d"}, {"dlq", "groups", "--limit", "-1"}, {"keys", "ls", "mail", "--top", "-1"},
		{"export", "--state", "scheduled", "--rate", "-1"}, {"move", "--queue", "mail", "--to-queue", "b", "--yes", "--rate", "-1"},
		{"history", "--since", "-1h"}, {"demo", "--for", "-1s"}, {"enqueue", "--type", "x", "--delay", "-1s"},
	} {
		c.has(c.run(2, args...), "--[a-z-]+ cannot be negative")
	}
	c.has(c.run(0, "show", "a"), "STATE +scheduled")
	c.has(c.run(0, "queues", "ls"), `(?m)^mail +1 *`)
}

// A script's variable without a value must not turn a decision into one about all queues, or about another store.
func TestUsage_NoFlagTakesAnEmptyText(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", "a", "--delay", "1h", "--payload", "", "--retention", "1d")
	out := filepath.Join(t.TempDir(), "out")
	for _, line := range []string{
		"delete --state scheduled --yes --queue=", "delete --state scheduled --yes --type=", "cancel --state scheduled --yes --key=",
		"cancel --state scheduled --yes --worker=", "reschedule --error=", "delete --yes --all --state=", "dlq purge --yes --group=",
		"dlq purge --yes --reason=", "doctor --fix --yes --queue=", "export --state scheduled --out " + out + " --queue=",
		"export --state scheduled --out=",
		"move --queue mail --to-queue b --yes --to=", "move --queue mail --to-queue b --yes --state=", "stats --broker=", "stats --context=",
		"enqueue --type x --unique=",
	} {
		c.has(c.run(2, strings.Fields(line)...), `^jobsctl: --[a-z-]+ is empty; leave it out, or give a value; see --help\n$`)
	}
	for _, line := range []string{"delete --state scheduled --yes --newer-than 0", "delete --state scheduled --yes --older-than 0s"} {
		c.has(c.run(2, strings.Fields(line)...), `^jobsctl: --[a-z-]+ must be more than zero`)
	}
	c.has(c.run(2, "delete", "--state", "scheduled", "--yes", "--limit", "0"), "or give --all") // 0 means all jobs
	c.has(c.run(0, "ls", "--state", "scheduled", "--limit", "0"), `(?m)^mail +a +x +scheduled`)
	c.run(0, "queues", "pause", "mail", "--note", "")
}

// Shells find the program by its name, and still have their own builtin jobs.
func TestUsage_ShellsRunTheProgramAndCompleteIt(t *testing.T) {
	t.Parallel()
	url := testenv.RedisPlace(t)
	if _, errs, code := output(t, nil, "--broker", url, "enqueue", "--type", "x", "--queue", "mail"); code != 0 {
		t.Fatal(errs)
	}
	const complete = `
complete_line() {
	COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	__start_jobsctl
	printf '%s\n' "${COMPREPLY[@]}"
}
_init_completion() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
compopt() { :; }
source <(jobsctl completion bash)
`
	for _, c := range []struct{ shell, script, want string }{
		{"sh", `jobsctl stats`, `(?m)^mail +1`},
		{"bash", `jobsctl stats`, `(?m)^mail +1`},
		{"bash", `jobsctl ls --json | cat`, `"queue":"mail"`},
		{"bash", `for verb in stats "ls --queue mail"; do jobsctl $verb || exit; done`, `(?m)^mail +(.*\n)+mail +`},
		{"bash", complete + `jobsctl --broker "$JOBS_BROKER" stats`, `(?m)^mail +1`},
		{"bash", complete + `sleep 100 & jobs; kill %1`, `Running +sleep 100`},
		{"bash", complete + `complete_line jobsctl dlq ""`, `(?m)^list\b(.*\n)*purge\b(.*\n)*redrive\b`},
		{"bash", complete + `complete_line jobsctl queues pause ""`, `(?m)^mail$`},
		{"bash", complete + `complete_line jobsctl ls --queue ""`, `(?m)^mail$`},
		{"bash", complete + `complete_line jobsctl ls --state de`, `(?m)^dead$`},
		{"bash", complete + `complete_line jobsctl schedule ""`, `(?m)^list\b(.*\n)*pause\b(.*\n)*run\b`},
		{"bash", complete + `complete_line jobsctl schedule list --status st`, `(?m)^stopped$`},
	} {
		cmd := shell(t, url, c.shell, c.script)
		if out, err := cmd.CombinedOutput(); err != nil || !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("%s -c '%s' (error %v) says\n%s\nwant a match of %s", c.shell, strings.TrimPrefix(c.script, complete), err, out, c.want)
		}
	}
}

// A line from a terminal works in a crontab, in a loop and in a pipe. Where nobody can answer, nothing waits for an answer.
func TestUsage_WhereNobodyLooks(t *testing.T) {
	t.Parallel()
	url := testenv.RedisPlace(t)
	(&cli{t: t, url: url, open: backends.Open}).enqueued(300, "mail", "x", 0)
	const cron = `env -i PATH="$PATH" JOBS_BROKER="$JOBS_BROKER" </dev/null jobsctl `
	for _, c := range []struct {
		script string
		code   int
		want   string
	}{
		{cron + `stats`, 0, `^QUEUE.*\nmail +300\b.*\n$`},
		{cron + `cancel --all`, 7, `^Really cancel about 300 jobs\? \[y/N\] \n.*--yes`},
		{cron + `cancel --all --limit 2 --yes`, 0, `2 jobs`},
		{cron + `top`, 2, `jobsctl stats`},
		{`jobsctl ls --queue mail --limit 0 | head -2; echo "${PIPESTATUS[0]}"`, 0, `^QUEUE +ID.*\nmail .*\n(0|141)\n$`},
		{`jobsctl ls --json --limit 3 | while read -r line; do jobsctl stats </dev/null | tail -1; done`, 0, `^(mail +298.*\n){3}$`},
		{`printf 'y\n' | jobsctl cancel --all`, 0, `298 jobs`},
	} {
		cmd := shell(t, url, "bash", c.script)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("%s exits with %d and says\n%s\nwant %d and a match of %s", c.script, code, out, c.code, c.want)
		}
	}
}

// The flag takes precedence over the variable, and the variable over the file.
func TestUsage_TheStoreIsTheOneThatWasNamedMostExplicitly(t *testing.T) {
	t.Parallel()
	queue := func(name string) string {
		url := testenv.RedisPlace(t)
		if _, errs, code := output(t, nil, "--broker", url, "enqueue", "--type", "x", "--queue", name); code != 0 {
			t.Fatal(errs)
		}
		return url
	}
	flag, variable, file, home := queue("of-the-flag"), queue("of-the-variable"), queue("of-the-file"), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other, broken, strange := filepath.Join(home, "other.yaml"), filepath.Join(home, "broken.yaml"), filepath.Join(home, "strange.yaml")
	write(filepath.Join(home, ".config", "jobsctl", "config.yaml"), "current: usual\ncontexts:\n  usual:\n    broker: "+file+
		"\n  rare:\n    broker: "+variable+"\n")
	write(other, "current: it\ncontexts:\n  it:\n    broker: \""+flag+"\"\n")
	write(broken, "contexts: [redis://:secret@store\n")
	write(strange, "contexts: {a: {brocker: redis://:secret@store}}\n")
	at := "HOME=" + home
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		want string
	}{
		{"all three", []string{at, "JOBS_BROKER=" + variable}, []string{"--broker", flag}, 0, "of-the-flag"},
		{"variable and file", []string{at, "JOBS_BROKER=" + variable}, nil, 0, "of-the-variable"},
		{"a context beside the variable", []string{at, "JOBS_BROKER=" + flag}, []string{"--context", "rare"}, 0, "of-the-variable"},
		{"both variables", []string{at, "JOBS_BROKER=" + flag, "JOBS_CONTEXT=rare"}, nil, 0, "of-the-flag"},
		{"a context of the environment", []string{at, "JOBS_CONTEXT=rare"}, nil, 0, "of-the-variable"},
		{"a context that is not there", []string{at}, []string{"--context", "other"}, 2, "no context \"other\""},
		{"a URL and a context", []string{at}, []string{"--context", "rare", "--broker", flag}, 2, "not both"},
		{"an empty variable", []string{at, "JOBS_BROKER="}, nil, 0, "of-the-file"},
		{"the file alone", []string{at}, nil, 0, "of-the-file"},
		{"XDG's directory", []string{"XDG_CONFIG_HOME=" + filepath.Join(home, ".config")}, nil, 0, "of-the-file"},
		{"another file", []string{at}, []string{"--config", other}, 0, "of-the-flag"},
		{"none", nil, nil, 2, "no store is given: use --broker or --context, set JOBS_BROKER"},
		{"a file that is not there", []string{at}, []string{"--config", filepath.Join(home, "none.yaml")}, 2, "no such file"},
		{"a file that is no YAML", []string{at}, []string{"--config", broken}, 2, "is not a configuration"},
		{"a name that is mistyped", []string{at}, []string{"--config", strange}, 2, "is not a configuration"},
	} {
		out, errs, code := output(t, c.env, append(c.args, "stats")...)
		if code != c.code || !strings.Contains(out+errs, c.want) || strings.Contains(out+errs, "secret") {
			t.Errorf("%s: exit code %d, want %d, with %q in\n%s%s", c.name, code, c.code, c.want, out, errs)
		}
	}
}

// No error about a URL shows its secrets.
func TestUsage_NoSecretOfAURLIsShown(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-word"
	for _, c := range []struct {
		url  string
		code int
	}{
		{"redis://user:" + secret + "@127.0.0.1:1/0", 5},
		{"redis://:" + secret + "@127.0.0.1:1/0?password=" + secret, 2},
		{"redis+cluster://:" + secret + "@127.0.0.1:1", 5},
		{"redis+sentinel://:" + secret + "@127.0.0.1:1/0?master_name=main&password=" + secret, 5},
		{"postgres://user:" + secret + "@127.0.0.1:1/db", 5},
		{"postgres://user:" + secret + "@127.0.0.1:1/db?sslmode=" + secret, 2},
		{"postgres://user:" + secret + "%zz@127.0.0.1:1/db", 2},
		{"mysql://user:" + secret + "@127.0.0.1:1/db", 2},
		{secret, 2},
	} {
		for _, way := range []struct {
			env, args []string
		}{{[]string{"JOBS_BROKER=" + c.url}, nil}, {nil, []string{"--broker", c.url}}} {
			out, errs, code := output(t, way.env, append([]string{"stats"}, way.args...)...)
			if strings.Contains(out+errs, secret) || code != c.code {
				t.Errorf("%s exits with %d, want %d, and without the secret it should say\n%s%s", c.url, code, c.code, out, errs)
			}
		}
		for _, verb := range [][]string{{"migrate"}, {"stats", "--help"}, {"stats", "--nothing"}} {
			out, errs, _ := output(t, nil, append(verb, "--broker", c.url)...)
			if strings.Contains(out+errs, secret) {
				t.Errorf("%s %q: the secret is in\n%s%s", c.url, verb, out, errs)
			}
		}
	}
}
