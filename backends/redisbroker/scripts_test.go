package redisbroker

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestScripts_EveryScriptFileIsUsed(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(scriptFiles, "scripts/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: %v, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".lua")
		if !slices.ContainsFunc(scripts, func(s *script) bool { return s.name == name }) {
			t.Errorf("%s is in no list of scripts", file)
		}
	}
	included := make(map[string]bool)
	for _, s := range scripts {
		if _, err := expand(s.name+".lua", included); err != nil {
			t.Error(err)
		}
	}
	parts, err := fs.Glob(scriptFiles, "scripts/lib/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range parts {
		if name := strings.TrimSuffix(path.Base(file), ".lua"); !included[name] {
			t.Errorf("%s is included by no script", file)
		}
	}
}

func TestScripts_EveryScriptSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	for _, s := range scripts {
		text, err := fs.ReadFile(scriptFiles, "scripts/"+s.name+".lua")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`\A-- ` + s.name + `: [a-z].*\.?`, `(?m)^-- KEYS   [a-z]`, `(?m)^-- ARGV   (now queues buckets|time )`,
			`(?m)^-- Reply  \{0`} {
			if !regexp.MustCompile(want).Match(text) {
				t.Errorf("header of %s.lua: nothing matches %s", s.name, want)
			}
		}
	}
}

func TestScripts_ConstantsStandInTheirPlaces(t *testing.T) {
	t.Parallel()
	place := func(body string) (string, error) {
		values := make(map[string]string)
		body, err := takeConstants(body, values)
		return replaceWords(body, values), err
	}
	got, err := place("local MOST, NAME = 5, 'x'\nlocal LIST = {MOST}\n" +
		"if n > MOST and s == NAME .. 'MOST' and #NAME < AT_MOST then\n")
	if want := "local LIST = {5}\nif n > 5 and s == 'x' .. 'MOST' and #'x' < AT_MOST then\n"; got != want || err != nil {
		t.Errorf("got\n%s%v\nwant\n%s", got, err, want)
	}
	for _, text := range []string{"local A, B = 1\n", "local A = 1\nlocal A = 2\n"} {
		if got, err := place(text); err == nil {
			t.Errorf("%q is taken, as %q", text, got)
		}
	}
}

// deprecated matches commands that Redis 6.2 and later advise against. For sorted sets
// ZRANGE with BYSCORE, BYLEX and REV replaces them.
var deprecated = regexp.MustCompile(`'(ZRANGEBY(SCORE|LEX)|ZREVRANGE(BYSCORE|BYLEX)?|HMSET|GETSET|SETNX|P?SETEX|B?RPOPLPUSH)'`)

func TestScripts_UseNoDeprecatedCommand(t *testing.T) {
	t.Parallel()
	for _, s := range scripts {
		for _, found := range deprecated.FindAllString(s.source, -1) {
			t.Errorf("%s.lua uses %s, which is deprecated", s.name, found)
		}
	}
}

var usedKey = regexp.MustCompile(`\bq\.([a-z_0-9]+)\b(\s*=[^=])?`)

// notKeys has the fields of q in which scripts store other things than keys.
var notKeys = []string{"buckets", "claimed", "called",
	"refused", "paused", "void", "dropped", "big", "leased", "promoted", "drained", "due", "retain", "span",
	"old", "turn", "round",
	"rules", "allowed", "opens", "bucket", "retry_bucket", "passes", "bytes", "keyed", "unblocks", "unsettled", "waiting"}

// A script may declare keys that a particular call does not need, but none that its text
// never names, and it names only keys that it declares.
func TestScripts_DeclareTheKeysTheyUse(t *testing.T) {
	t.Parallel()
	for _, s := range scripts {
		source, err := expand(s.name+".lua", make(map[string]bool))
		if err != nil {
			t.Fatal(err)
		}
		code := regexp.MustCompile(`--.*`).ReplaceAllString(source, "")
		used := make(map[string]bool)
		for _, m := range usedKey.FindAllStringSubmatch(code, -1) {
			name := m[1]
			if slices.Contains(notKeys, name) {
				continue
			}
			if name == "ready" || name == "rings" || name == "bodies" {
				name += "*"
			}
			used[name] = true
		}
		whole := s == createScript || s == dropScript // they use all of KEYS
		for _, name := range s.words {
			if !used[name] && !whole {
				t.Errorf("%s.lua declares %s and does not use it", s.name, name)
			}
			delete(used, name)
		}
		for name := range used {
			t.Errorf("%s.lua uses %s and does not declare it", s.name, name)
		}
		if !whole && regexp.MustCompile(`\bKEYS\b`).MatchString(code) {
			t.Errorf("%s.lua reads KEYS itself", s.name)
		}
	}
}

// A word for a key must have no other meaning: the loader would replace it by a key.
func TestScripts_EachKeyHasItsWord(t *testing.T) {
	t.Parallel()
	named := make(map[string]bool)
	for word, name := range keyWords {
		named[name] = true
		if slices.Contains(notKeys, strings.TrimSuffix(word, "*")) {
			t.Errorf("%s is a key, and a field that scripts keep", word)
		}
		if !slices.Contains(keyNames, name) {
			t.Errorf("%s stands for %s, which is no key", word, name)
		}
	}
	for _, name := range keyNames {
		if !named[name] {
			t.Errorf("scripts have no word for the key %s", name)
		}
	}
}

// A script must declare the arguments and the fields of the record that it names: the
// loader replaces only those, and the tables args and m do not exist.
func TestScripts_DeclareTheArgumentsTheyUse(t *testing.T) {
	t.Parallel()
	for _, s := range scripts {
		text, err := expand(s.name+".lua", make(map[string]bool))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(args|first|m)\.[a-z_]+`).FindAllString(s.source, -1) {
			t.Errorf("%s.lua uses %s and does not declare it", s.name, name)
		}
		for _, word := range s.args {
			name, list := strings.CutSuffix(word, "*")
			if name == "now" || name == "queues" || name == "buckets" {
				continue // all calls have these
			}
			use := "args." + name
			if list {
				use = "first." + name
			}
			if !regexp.MustCompile(`\b` + use + `\b`).MatchString(text) {
				t.Errorf("%s.lua declares the argument %s and does not use it", s.name, word)
			}
			if list {
				break // the script finds the others behind it
			}
		}
		call := opening.FindStringSubmatch(text)
		if call == nil {
			continue
		}
		for _, field := range strings.Split(call[1], "', '") {
			if !regexp.MustCompile(`\bm\.` + field + `\b`).MatchString(text) {
				t.Errorf("%s.lua reads the field %s of the record and does not use it", s.name, field)
			}
		}
	}
}

// The loader replaces what follows "q.", "args.", "first." or "m.", also at the end of a
// longer name.
func TestScripts_NoOtherNameInAScriptEndsLikeThoseTheLoaderPlaces(t *testing.T) {
	t.Parallel()
	for _, s := range scripts {
		text, err := expand(s.name+".lua", make(map[string]bool))
		if err != nil {
			t.Fatal(err)
		}
		if name := regexp.MustCompile(`\w+(q|args|first|m)\.[a-z0-9]+`).FindString(text); name != "" {
			t.Errorf("%s.lua has %s, which the loader would take for a name of its own", s.name, name)
		}
		if strings.Contains(text, "--") {
			t.Errorf("%s.lua has a comment left", s.name)
		}
	}
}

func TestScripts_LoadEverywhere(t *testing.T) {
	t.Parallel()
	mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = mini.Close() })
	for name, c := range map[string]*redis.Client{"redis": client(t), "miniredis": mini} {
		for _, s := range scripts {
			sha, err := c.ScriptLoad(t.Context(), s.source).Result()
			if err != nil || sha != s.sha {
				t.Errorf("%s: SCRIPT LOAD of %s: %q, %v, want %q", name, s.name, sha, err, s.sha)
			}
		}
	}
}

// monitored is a connection that sees every command that a server runs, also those of
// scripts.
type monitored struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func monitor(t *testing.T, addr string) *monitored {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	m := &monitored{t: t, conn: conn, in: bufio.NewReader(conn)}
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	if line := m.line(); line != "+OK" {
		t.Fatalf("MONITOR: %s", line)
	}
	return m
}

func (m *monitored) line() string {
	m.t.Helper()
	line, err := m.in.ReadString('\n')
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

var monitoredWord = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// next returns the next command, and whether a script ran it.
func (m *monitored) next() (words []string, inScript bool) {
	m.t.Helper()
	line := m.line()
	for _, quoted := range monitoredWord.FindAllString(line, -1) {
		word, err := strconv.Unquote(quoted)
		if err != nil {
			m.t.Fatalf("%s: %v", quoted, err)
		}
		words = append(words, word)
	}
	return words, strings.Contains(line, " lua] ")
}

func TestScripts_TouchOnlyTheKeysTheyWereGiven(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	m := monitor(t, c.Options().Addr)
	for i, buckets := range []int{1, 3} {
		b := openAs(t, c, Config{Prefix: fmt.Sprint("jobs", i), Buckets: buckets})
		(&life{t: t, b: b, queue: "q"}).run()
		if _, err := b.Operate(t.Context(), removal("q")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Echo(t.Context(), "the end").Err(); err != nil {
		t.Fatal(err)
	}

	var given []string
	ran := make(map[string]bool)
	for {
		words, inScript := m.next()
		switch command := strings.ToLower(words[0]); {
		case command == "echo" && words[1] == "the end":
			for _, s := range scripts {
				if !ran[s.sha] && s != watchScript {
					t.Errorf("%s did not run", s.name)
				}
			}
			return
		case command == "evalsha":
			n, err := strconv.Atoi(words[2])
			if err != nil {
				t.Fatal(words)
			}
			given = words[3 : 3+n]
			ran[words[1]] = true
		case inScript && command != "time" && command != "publish":
			keys := words[1:2]
			if command == "exists" || command == "unlink" {
				keys = words[1:]
			}
			for _, key := range keys {
				if !slices.Contains(given, key) {
					t.Errorf("%s of %q, which is not among the keys of the script", words[0], key)
				}
			}
		}
	}
}
