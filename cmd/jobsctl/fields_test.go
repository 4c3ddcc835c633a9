package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/seed81422ce9/jobs/internal/readable"
)

// fields returns the part of an output that golden files keep: the fields of tables and
// objects by name, in any order and width, and only the facts of sentences. So texts
// can be reworded, but no number changes unseen. args are the command's arguments; hide
// replaces what differs between machines.
func fields(out string, args []string, hide *strings.Replacer) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i := 0; i < len(lines); {
		n := 1
		switch line := lines[i]; {
		case line == "":
		case line[0] == '{' && json.Valid([]byte(line)):
			b.WriteString(objectOf(line, args) + "\n")
		case heads.MatchString(line) && i == 0:
			n = len(lines)
			rowsOf(&b, lines, args, hide)
		case named.MatchString(line):
			for i+n < len(lines) && named.MatchString(lines[i+n]) {
				n++
			}
			blockOf(&b, lines[i:i+n], args, hide)
		case strings.ContainsAny(line, "✓✗·├└│…"): // a graph
			b.WriteString(line + "\n")
		default:
			if said := facts(hide.Replace(line), args); said != "" {
				b.WriteString(said + "\n")
			}
		}
		i += n
	}
	return b.String()
}

var (
	heads = regexp.MustCompile(`^[A-Z][A-Z /]*(?:  +[A-Z][A-Z /]*)+$`)
	named = regexp.MustCompile(`^([A-Z]+(?: [A-Z]+)*)  +(\S.*)$`)
	token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|--[a-z-]+|[^\s"(),;]+`)
)

// rowsOf writes the cells of each row with the heads of their columns.
func rowsOf(b *strings.Builder, lines, args []string, hide *strings.Replacer) {
	var names []string
	var from []int
	for _, at := range regexp.MustCompile(`[A-Z][A-Z /]*?(?:  |$)`).FindAllStringIndex(lines[0], -1) {
		names, from = append(names, strings.TrimSpace(lines[0][at[0]:at[1]])), append(from, at[0])
	}
	timed := slices.Contains(names, "CANCELLED") // a list of queues: its rates depend on how long the test took
	shown := slices.DeleteFunc(slices.Sorted(slices.Values(names)),
		func(name string) bool { return timed && slices.Contains(rateColumns, name) })
	b.WriteString("table of " + strings.Join(shown, ", ") + "\n")
	for _, line := range lines[1:] {
		if strings.HasPrefix(line, "  ") { // belongs to the row above
			b.WriteString("  below: " + facts(hide.Replace(line), append(args, strings.Fields(line)...)) + "\n")
			continue
		}
		runes := []rune(line)
		var cells []string
		for i, name := range names {
			end := len(runes)
			if i+1 < len(from) {
				end = min(end, from[i+1])
			}
			if from[i] >= end {
				continue
			}
			parts := regexp.MustCompile(`   +|  `).Split(strings.TrimSpace(string(runes[from[i]:end])), -1)
			if timed && slices.Contains(rateColumns, name) {
				if parts[len(parts)-1] == "paused" {
					cells = append(cells, "-OLDEST=paused")
				}
				continue
			}
			for n, part := range parts { // a column without a head may follow the last one
				if part != "" {
					cells = append(cells, strings.Repeat("-", n)+name+"="+part)
				}
			}
		}
		slices.Sort(cells)
		b.WriteString("  " + strings.Join(cells, " | ") + "\n")
	}
}

// blockOf writes lines of a name and a value; of values longer than a few words, only
// the facts.
func blockOf(b *strings.Builder, lines, args []string, hide *strings.Replacer) {
	var all []string
	for _, line := range lines {
		m := named.FindStringSubmatch(line)
		if strings.Count(m[2], " ") > 3 {
			m[2] = facts(hide.Replace(m[2]), args)
		}
		all = append(all, "  "+m[1]+"="+m[2])
	}
	slices.Sort(all)
	b.WriteString(strings.Join(all, "\n") + "\n")
}

// rateColumns and rateFields are what a queue did lately, which depends on how long the
// test took. TestTop and inspect's tests check them.
var (
	rateColumns = []string{"DONE/S", "FAILED", "WAIT P50", "WAIT P95", "WAIT P99", "RUN P50", "RUN P95", "RUN P99", "GONE IN"}
	rateFields  = []string{"lately", "totals"}
)

// prose are the fields of objects that hold sentences.
var prose = []string{"error", "text", "what", "means", "repair", "advice"}

// objectOf writes a line of JSON with sorted names.
func objectOf(line string, args []string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return line
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				if slices.Contains(rateFields, name) {
					delete(v, name)
					continue
				}
				if text, ok := value.(string); ok && slices.Contains(prose, name) {
					value = facts(text, args)
				}
				v[name] = walk(value)
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(walk(v)); err != nil {
		return line
	}
	return string(readable.AppendJSON(nil, bytes.TrimSpace(b.Bytes()), readable.Harmful))
}

// facts returns the facts in a sentence: numbers, arguments of the command, quoted
// text, flags, states, and the placeholders for what differs between runs.
func facts(sentence string, args []string) string {
	var said []string
	for _, word := range token.FindAllString(steady(sentence), -1) {
		word = strings.TrimRight(word, ".:?!")
		trimmed := strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
		switch {
		case strings.HasPrefix(word, `"`), strings.HasPrefix(word, "--"), strings.ContainsFunc(word, unicode.IsNumber),
			len(trimmed) > 1 && strings.ToUpper(trimmed) == trimmed, slices.Contains(args, trimmed), slices.Contains(texts(listable), trimmed):
			said = append(said, word)
		}
	}
	return strings.Join(said, " ")
}

func TestFields_HoldWhatIsSaidAndNotHow(t *testing.T) {
	t.Parallel()
	none := strings.NewReplacer()
	args := []string{"redrive", "order-a"}
	const before = "QUEUE  ID       OLDEST\nmail   order-a          paused\nmail   x        1.5s\n"
	for _, c := range []struct {
		name, one, other string
		same             bool
	}{
		{"another wording", "2 of 3 jobs redriven.\n", "Redriven: 2 of 3 jobs\n", true},
		{"another number", "2 of 3 jobs redriven.\n", "2 of 4 jobs redriven.\n", false},
		{"another job", "order-a is gone\n", "order-b is gone\n", false},
		{"another state", "order-a is dead\n", "order-a is active\n", false},
		{"another flag", "not confirmed (--yes confirms)\n", "not confirmed (--force confirms)\n", false},
		{"wider columns", before, "QUEUE    ID         OLDEST\nmail     order-a            paused\nmail     x          1.5s\n", true},
		{"another order of columns", before, "ID       QUEUE  OLDEST\norder-a  mail           paused\nx        mail   1.5s\n", true},
		{"a value in another column", "A  BB\nx\n", "A  BB\n   x\n", false},
		{"another cell", before, strings.Replace(before, "order-a", "order-b", 1), false},
		{"another column", before, strings.Replace(before, "OLDEST", "NEWEST", 1), false},
		{"another order of fields", `{"a":1,"b":{"c":2}}`, `{"b":{"c":2},"a":1}`, true},
		{"another field", `{"a":1}`, `{"a":2}`, false},
		{"another text of an error", `{"error":"no job \"a\""}`, `{"error":"there is no \"a\""}`, true},
		{"another name", "QUEUE  mail\nTYPE   x\n", "QUEUE  mail\nKIND   x\n", false},
		{"another order of names", "QUEUE  mail\nTYPE  x\n", "TYPE  x\nQUEUE  mail\n", true},
	} {
		one, other := fields(c.one, args, none), fields(c.other, args, none)
		if (one == other) != c.same {
			t.Errorf("%s: the same is %v, want %v:\n%s\n%s", c.name, one == other, c.same, one, other)
		}
	}
}
