package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"go.yaml.in/yaml/v3"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/figures"
	"github.com/seed81422ce9/jobs/internal/readable"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestListing_SortsByAnyColumn(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	for i, queue := range []string{"b", "a", "c"} {
		for range []int{2, 30, 9}[i] {
			c.run(0, "enqueue", "--type", "x", "--queue", queue)
		}
	}
	c.run(0, "queues", "pause", "a")
	c.run(0, "enqueue", "--type", "x", "--queue", "b", "--delay", "1h")
	for _, look := range []struct{ sort, want string }{
		{"queue", "a b c"}, {"-queue", "c b a"}, {"pending", "b c a"}, {"-pending", "a c b"}, {"-PENDING", "a c b"},
		{"scheduled", "b a c"}, {"-scheduled", "b a c"}, // the others have no time, and come last
	} {
		for _, verb := range []string{"stats", "queues ls"} {
			var order []string
			for line := range strings.Lines(c.run(0, append(strings.Fields(verb), "--sort", look.sort, "-o", "json")...)) {
				var v figures.Queue
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Fatal(err)
				}
				order = append(order, v.Queue)
			}
			table := strings.Split(strings.TrimSpace(c.run(0, append(strings.Fields(verb), "--sort="+look.sort)...)), "\n")
			if got := strings.Join(order, " "); got != look.want || len(table) != 4 || table[1][:1] != look.want[:1] ||
				table[3][:1] != look.want[4:] {
				t.Errorf("jobsctl %s --sort %s: %s, want %s; as a table\n%s", verb, look.sort, got, look.want, strings.Join(table, "\n"))
			}
		}
	}
	c.has(c.run(2, "ls", "--sort", "colour"), `--sort "colour"`, "last-error")
	c.run(0, "enqueue", "--type", "aaa", "--queue", "c", "--id", "first-by-type")
	if rows := strings.Split(c.run(0, "ls", "--sort", "type", "--limit", "1"), "\n"); len(rows) != 3 ||
		!strings.Contains(rows[1], "first-by-type") {
		t.Errorf("a limit is applied before sorting:\n%s", strings.Join(rows, "\n"))
	}
	if rows := strings.Split(c.run(0, "ls", "--sort", "-queue", "--limit", "2"), "\n"); len(rows) != 4 || !strings.HasPrefix(rows[2], "c ") {
		t.Errorf("not the last two by queue:\n%s", strings.Join(rows, "\n"))
	}
}

// YAML holds the same objects as JSON, and no control characters.
func TestListing_WritesYAMLOfTheSameObjects(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	const hostile = "\x1b]0;owned\x07 \u202egnp.exe\nsecond: line 😀 # 'no' \u0085\x7f"
	for _, id := range []string{"a", "b"} {
		c.run(0, "enqueue", "--type", "email:x", "--queue", "mail", "--id", id, "--key", "0123", "--header", "n="+hostile, "--payload",
			`{"user":1e3,"none":[],"date":"2026-01-02","yes":"yes"}`)
	}
	c.run(0, "enqueue", "--type", "email:x", "--queue", "other", "--id", "c", "--payload",
		`{"emoji":"\ud83d\ude00","half":"\ud83d","url":"a\/b","`+strings.Repeat("k", 2000)+`":[12345678901234567890123,{"<<":"=","":null}]}`)
	c.has(c.run(0, "show", "c", "--payload", "-o", "yaml"), `emoji: "\\U0001F600"`, `url: a/b`, `- 12345678901234567890123\n`, `- "<<": "="`)
	for _, args := range [][]string{{"show", "a", "--payload"}, {"stats"}, {"ls"}, {"why", "b"}, {"queues", "policy", "mail"}, {"version"}} {
		lines := strings.Split(strings.TrimSpace(c.run(0, append(args, "-o", "json")...)), "\n")
		text := c.run(0, append(args, "-o", "yaml")...)
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || readable.Harmful(r)) }); i >= 0 {
			t.Errorf("jobsctl %q -o yaml has %q in\n%s", args, text[i:i+3], text)
		}
		documents := strings.Split(text, "---\n")
		if len(documents) != len(lines) {
			t.Fatalf("jobsctl %q writes %d documents of YAML, and %d lines of JSON\n%s", args, len(documents), len(lines), text)
		}
		for i, line := range lines {
			if strings.ContainsAny(line, "\x7f\u0085\u202e") {
				t.Errorf("jobsctl %q writes a character that controls the terminal:\n%s", args, line)
			}
			var fromJSON, fromYAML map[string]any
			if err := errors.Join(yaml.Unmarshal([]byte(line), &fromJSON), yaml.Unmarshal([]byte(documents[i]), &fromYAML)); err != nil {
				t.Fatalf("%v in\n%s", err, documents[i])
			}
			for _, volatile := range []string{"now", "oldest_seconds", "oldest_pending_seconds"} {
				delete(fromJSON, volatile)
				delete(fromYAML, volatile)
			}
			if fmt.Sprint(fromJSON) != fmt.Sprint(fromYAML) {
				t.Errorf("jobsctl %q: as YAML\n%v\nas JSON\n%v", args, fromYAML, fromJSON)
			}
		}
	}
	c.has(c.run(0, "show", "a", "-o", "yaml"), `(?m)^queue: mail$`, `(?m)^key: "0123"$`, `(?m)^headers:\n  n: "`)
	c.has(c.run(2, "stats", "-o", "xml"), "table, wide, json, yaml")
}

// seen runs the command in a terminal with cols columns and returns its lines.
func seen(t *testing.T, cols int, env []string, args ...string) []string {
	t.Helper()
	cmd := command(t, append([]string{"TERM=xterm"}, env...), args...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(cols), Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(f) // always an error: the terminal is closed
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) || err != nil {
		t.Fatalf("jobsctl %q: %v\n%s", args, err, &b)
	}
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(b.String(), "\r\n", "\n")), "\n")
}

func TestListing_FitsTheTerminalAndIsUncutInAPipe(t *testing.T) {
	t.Parallel()
	url := testenv.RedisPlace(t)
	s := &transcript{cli: &cli{t: t, url: url, open: backends.Open}}
	w := s.work("notifications-of-the-shop", 1, "email:*")
	message := "no user 42 " + strings.Repeat("字", 100) + " end"
	s.run("enqueue", "--queue", "notifications-of-the-shop", "--type", "email:a-rather-long-type-of-task", "--key", "tenant-1")
	id := w.holds()
	w.ends(fmt.Errorf("%w: %s", jobs.SkipRetry, message), 6)
	w.stop()
	env := []string{"JOBS_BROKER=" + url}
	for _, verb := range []string{"dlq list", "stats", "queues ls", "workers", "workflow list", "schedule list"} {
		for _, cols := range []int{60, 80, 140} {
			for _, line := range seen(t, cols, env, strings.Fields(verb)...) {
				if width := ansi.StringWidth(line); width > cols {
					t.Errorf("jobsctl %s in %d columns has a line of %d:\n%s", verb, cols, width, line)
				}
			}
		}
	}
	narrow := strings.Join(seen(t, 60, env, "dlq", "list"), "\n")
	for _, part := range []string{id, "no user 4", "-o wide also shows: ", "ATTEMPT"} {
		if !strings.Contains(narrow, part) {
			t.Errorf("in 60 columns there is no %q:\n%s", part, narrow)
		}
	}
	wide := strings.Join(seen(t, 60, env, "dlq", "list", "-o", "wide"), "\n")
	piped, _, _ := output(t, env, "dlq", "list")
	for _, text := range []string{wide, piped} {
		if !strings.Contains(text, message) || !strings.Contains(text, "notifications-of-the-shop") || strings.Contains(text, "…") {
			t.Errorf("something is cut:\n%s", text)
		}
	}
	if !strings.Contains(wide, "skip_retry") || strings.Contains(piped, "REASON") {
		t.Errorf("the reason is not in the wide table alone:\n%s\n%s", wide, piped)
	}
}

// In a narrow terminal, times lose their day and fraction before a column is left out.
func TestListing_TimesAreShortenedFirst(t *testing.T) {
	t.Parallel()
	url := testenv.RedisPlace(t)
	s := &transcript{cli: &cli{t: t, url: url, open: backends.Open}}
	w := s.work("mail", 1, "*")
	s.run("enqueue", "--queue", "mail", "--type", "email:send")
	w.holds()
	w.ends(jobs.SkipRetry, 6)
	w.stop()
	env := []string{"JOBS_BROKER=" + url}
	long, tiny := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), regexp.MustCompile(` (\d\d-\d\d )?\d\d:\d\d:\d\d `)
	for _, c := range []struct {
		cols       int
		form, not  *regexp.Regexp
		everything bool
	}{{140, long, tiny, true}, {100, tiny, long, true}, {80, tiny, long, false}} {
		text := strings.Join(seen(t, c.cols, env, "dlq", "list"), "\n")
		if !c.form.MatchString(text) || c.not.MatchString(text) || strings.Contains(text, "also shows") == c.everything {
			t.Errorf("in %d columns the list is\n%s", c.cols, text)
		}
	}
}

func TestListing_LeavesRoomForTheErrorItself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: no such user", jobs.SkipRetry), "no such user"},
		{fmt.Errorf("no such user: %w", jobs.SkipRetry), "no such user"},
		{jobs.RetryAfter(1500*time.Millisecond, errors.New("busy")), "busy"},
		{jobs.Cancel(errors.New("no use")), "no use"},
		{jobs.SkipRetry, jobs.SkipRetry.Error()},
		{errors.New("it says: cancelled: no"), "it says: cancelled: no"},
	} {
		if got := cause(c.err.Error()); got != c.want {
			t.Errorf("of %q a list shows %q, want %q", c.err, got, c.want)
		}
	}
}

func TestLayout_CutsBeforeItLeavesOut(t *testing.T) {
	t.Parallel()
	columns := []column{{least: 4}, {}, {rank: 1}, {rank: 2, least: 3}}
	natural := []int{10, 5, 6, 20}
	for _, c := range []struct {
		width int
		want  []int
	}{
		{47, []int{10, 5, 6, 20}},
		{40, []int{10, 5, 6, 13}},
		{30, []int{6, 5, 6, 7}},
		{24, []int{4, 5, 6, 3}},
		{23, []int{8, 5, 6, 0}},
		{19, []int{4, 5, 6, 0}},
		{18, []int{10, 5, 0, 0}},
		{11, []int{4, 5, 0, 0}},
		{3, []int{4, 5, 0, 0}},
	} {
		if got := layout(columns, natural, c.width); !slices.Equal(got, c.want) {
			t.Errorf("in %d columns the widths are %v, want %v", c.width, got, c.want)
		}
	}
}
