package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// commandLine matches a command in the documentation: in an indented block, with or
// without a prompt, or between backticks.
var commandLine = regexp.MustCompile("(?m)^ {4,}(?:\\$ )?(?:JOBS_BROKER=\\S+ )?(jobsctl .*)$|`(jobsctl [a-z-][^`]*)`")

// Every command in the documentation exists, with its flags.
func TestDocs_CommandsInTheDocumentationExist(t *testing.T) {
	t.Parallel()
	files := []string{"../../README.md", "../../deploy/README.md"}
	err := filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	a := &app{environment: environment{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}}
	root := a.root()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandLine.FindAllStringSubmatch(string(text), -1) {
			line, _, _ := strings.Cut(m[1]+m[2], " #")
			line, _, _ = strings.Cut(line, " | ")
			if strings.HasPrefix(line, "jobsctl:") {
				continue // output of a command
			}
			found++
			cmd, args, err := root.Find(words(line)[1:])
			if err == nil && cmd.HasSubCommands() && cmd.HasParent() && !strings.Contains(cmd.Use, " ") {
				t.Errorf("%s: %s: %s needs one of its verbs", file, line, cmd.CommandPath())
			}
			if err == nil {
				cmd.InitDefaultVersionFlag()
				err = cmd.ParseFlags(args)
			}
			if given := cmd.Flags().Args(); err == nil && len(given) > 0 { // no arguments: the text only names the command
				err = cmd.ValidateArgs(given)
			}
			if errors.Is(err, pflag.ErrHelp) {
				err = nil
			}
			if err != nil || !cmd.HasParent() && len(args) > 0 && !strings.HasPrefix(args[0], "--") {
				t.Errorf("%s: there is no %s: %v", file, line, err)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d commands were found: they are looked for in the wrong way", found)
	}
}

// words splits a line into words as a shell does, as far as these lines need it.
func words(line string) (all []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

// What the documentation shows as output of the command has the command's form: errors
// begin with its name, and RUNS counts as "jobsctl show" does.
func TestDocs_OutputsHaveTheFormOfTheCommand(t *testing.T) {
	t.Parallel()
	runs := regexp.MustCompile(`^RUNS +\d+ delivered, \d+ failed \(retries allowed: \d+\), \d+ crashed, \d+ snoozed$`)
	seen := 0
	for _, file := range []string{"../../docs/operations.md", "../../docs/runbooks.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var command string
		for line := range strings.Lines(string(text)) {
			shown, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
			prompt, isPrompt := strings.CutPrefix(shown, "$ ")
			switch {
			case !indented:
				command = ""
			case isPrompt:
				command = prompt
			case !strings.Contains(command, "jobsctl"):
			case strings.HasPrefix(shown, "jobs: "):
				t.Errorf("%s: errors of the command begin with jobsctl:, after %q it shows\n%s", file, command, shown)
			case strings.HasPrefix(shown, "RUNS"):
				seen++
				if !runs.MatchString(shown) {
					t.Errorf("%s: jobsctl show does not print\n%s", file, shown)
				}
			}
		}
	}
	if seen < 2 {
		t.Errorf("only %d lines RUNS were found: they are looked for in the wrong way", seen)
	}
}
