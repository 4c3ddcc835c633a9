package redisbroker

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed scripts
var scriptFiles embed.FS

// script is one of scripts/*.lua, expanded. "-- @include x" stands for scripts/lib/x.lua,
// which is included only once. q.x stands for the key of the queue q that the header
// declares by the word x. It is replaced by its position in KEYS, which saves some µs in
// each call, compared with a table of words.
type script struct {
	name   string
	source string
	sha    string
	words  []string // the words of the keys that it declares
	keys   []int    // their positions in keyNames
	lists  int      // how many of them stand for one key for each priority
	bodies bool     // it gets the keys of buckets
	args   []string // the arguments that it declares
	short  bool     // it gets no time and no numbers of queues and buckets, and does not open a queue
}

var scripts []*script // all of these

func newScript(name string) *script {
	s := &script{name: name}
	scripts = append(scripts, s)
	return s
}

var (
	createScript   = newScript("create")
	plainScript    = newScript("enqueue_plain")
	enqueueScript  = newScript("enqueue")
	meetScript     = newScript("enqueue_meet")
	restoreScript  = newScript("restore")
	claimScript    = newScript("claim")
	settleScript   = newScript("settle")
	registerScript = newScript("register")
	renewScript    = newScript("renew")
	extendScript   = newScript("extend")
	retireScript   = newScript("retire")
	reclaimScript  = newScript("reclaim")
	findScript     = newScript("find")
	operateScript  = newScript("operate")
	dropScript     = newScript("drop")
	policyScript   = newScript("policy")
	queuesScript   = newScript("queues")
	keysScript     = newScript("keys")
	pruneScript    = newScript("prune")
	markScript     = newScript("mark")
	watchScript    = newScript("watch")

	examineRecordScript  = newScript("examine_record")
	examineJobsScript    = newScript("examine_jobs")
	examineEntriesScript = newScript("examine_entries")
	examineLeasesScript  = newScript("examine_leases")
	examineNamesScript   = newScript("examine_names")
	examineKeysScript    = newScript("examine_keys")
	examineMarksScript   = newScript("examine_marks")
)

// parseScripts prepares all scripts. It is called when the first Broker is made, since it takes some milliseconds, and programs
// import this package that use another store.
var parseScripts = sync.OnceFunc(func() {
	for _, s := range scripts {
		if err := s.parse(); err != nil {
			panic("redisbroker: script " + s.name + ": " + err.Error()) // an embedded file is wrong
		}
	}
})

func (s *script) parse() error {
	file := s.name + ".lua"
	header, err := scriptFiles.ReadFile(path.Join("scripts", file))
	if err != nil {
		return err
	}
	s.words, s.args = declared(string(header), "KEYS", "ARGV"), declared(string(header), "ARGV", "Reply")
	s.short = len(s.args) == 0 || s.args[0] != "now"
	for _, word := range s.words {
		at := slices.Index(keyNames, keyWords[word])
		if at < 0 {
			return fmt.Errorf("key %q is unknown", word)
		}
		s.keys = append(s.keys, at)
		switch word {
		case "ready*", "rings*":
			s.lists++
		case "bodies*":
			s.bodies = true
		}
	}
	text, err := expand(file, make(map[string]bool))
	if err != nil {
		return err
	}
	values := map[string]string{"HAS_BODIES": strconv.FormatBool(s.bodies)}
	body, err := takeConstants(text, values)
	if err != nil {
		return err
	}
	many := strings.Contains(string(header), manyQueues)
	s.placeArgs(values, many)
	placeFields(values, body)
	before := s.placeKeys(values, many)
	s.source = before + replaceWords(body, values)
	sum := sha1.Sum([]byte(s.source))
	s.sha = hex.EncodeToString(sum[:])
	return nil
}

// declared reads the words between two titles in a header, up to the explanation of the words.
func declared(text, title, next string) []string {
	_, text, _ = strings.Cut(text, "-- "+title+" ")
	text, _, _ = strings.Cut(text, "-- "+next+" ")
	text, _, _ = strings.Cut(text, "(")
	return strings.Fields(strings.ReplaceAll(text, "--", ""))
}

// expand replaces the include lines of a file, each file once.
func expand(file string, done map[string]bool) (string, error) {
	text, err := scriptFiles.ReadFile(path.Join("scripts", file))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "-- @include ")
		if !ok {
			out.WriteString(code(line))
			continue
		}
		if done[name] {
			continue
		}
		done[name] = true
		part, err := expand(path.Join("lib", name+".lua"), done)
		if err != nil {
			return "", err
		}
		out.WriteString(part)
	}
	return out.String(), nil
}

// manyQueues, on the KEYS line, says that a call may be about several queues.
const manyQueues = "(a block for each queue)"

// code returns a line without its comment, or "" for a comment line.
func code(line string) string {
	if strings.HasPrefix(strings.TrimSpace(line), "--") {
		return ""
	}
	if before, _, ok := strings.Cut(line, " -- "); ok {
		return strings.TrimRight(before, " \t") + "\n"
	}
	return line
}

// opening matches the call of open that names the fields of the record which a script uses.
var opening = regexp.MustCompile(`= open\('([a-z_', ]+)'\)`)

// constants matches a line that names numbers or strings: local STOP, SKIP = 1, 2.
var constants = regexp.MustCompile(`^local ([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = ((?:-?\d+|'[^']*')(?:, (?:-?\d+|'[^']*'))*)\n$`)

// takeConstants adds the constants of a script to values, and returns the rest of the script. They are replaced by their values,
// since Lua allows only 200 local names in a script, and functions need most of them.
func takeConstants(body string, values map[string]string) (string, error) {
	var rest strings.Builder
	rest.Grow(len(body))
	for line := range strings.Lines(body) {
		var found []string
		if len(line) > len("local ") && line[len("local ")] <= 'Z' {
			found = constants.FindStringSubmatch(line)
		}
		if found == nil {
			rest.WriteString(line)
			continue
		}
		names, list := strings.Split(found[1], ", "), strings.Split(found[2], ", ")
		if len(names) != len(list) {
			return "", fmt.Errorf("%d names for %d constants: %s", len(names), len(list), line)
		}
		for i, name := range names {
			if _, ok := values[name]; ok {
				return "", fmt.Errorf("the constant %s is there twice", name)
			}
			values[name] = list[i]
		}
	}
	return rest.String(), nil
}

// replaceWords replaces words of a script, such as STOP, q.retry and q.ready[, but not in its strings.
func replaceWords(body string, values map[string]string) string {
	var out strings.Builder
	out.Grow(len(body))
	for at := 0; at < len(body); {
		end := at + 1
		switch {
		case body[at] == '\'':
			for ; body[end] != '\''; end++ {
				if body[end] == '\\' {
					end++
				}
			}
			end++
		case isWord(body[at]):
			end = wordEnd(body, end)
			if end+1 < len(body) && body[end] == '.' && isWord(body[end+1]) {
				end = wordEnd(body, end+1)
			}
			if end < len(body) && body[end] == '[' {
				if value, ok := values[body[at:end+1]]; ok {
					out.WriteString(value)
					at = end + 1
					continue
				}
			}
			if value, ok := values[body[at:end]]; ok {
				out.WriteString(value)
				at = end
				continue
			}
		}
		out.WriteString(body[at:end])
		at = end
	}
	return out.String()
}

func wordEnd(body string, at int) int {
	for at < len(body) && isWord(body[at]) {
		at++
	}
	return at
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// placeArgs adds the arguments and their positions in ARGV: args.worker, and first.jobs for the position where a list begins. A
// name with a star is a list. If the list buckets* has an entry for each queue, the next arguments follow these entries. Arguments
// after another list must be found by the script.
func (s *script) placeArgs(values map[string]string, many bool) {
	base := ""
	for i, word := range s.args {
		name, list := strings.CutSuffix(word, "*")
		at := base + strconv.Itoa(i+1)
		values["args."+name], values["first."+name] = "ARGV["+at+"]", at
		if list && !(many && name == "buckets") {
			break
		}
		if list {
			base = "tonumber(ARGV[2])-1+" // the number of queues
		}
	}
}

// placeFields adds the fields of the record that a script names in its call of open, and their positions in the list m that open
// returns: m.paused.
func placeFields(values map[string]string, body string) {
	call := opening.FindStringSubmatch(body)
	if call == nil {
		return
	}
	for i, field := range strings.Split(call[1], "', '") {
		values["m."+field] = fmt.Sprintf("m[%d]", i+3) // after the version and the number of buckets
	}
}

// placeKeys adds the words of keys and their positions in KEYS: q.retry, and q.ready[ for q.ready[p]. It returns the function
// names(at, n) for the beginning of the script, which returns the queue whose keys follow KEYS[at], and the position of the last
// of these keys. In a call for several queues, the queue has n buckets; in other calls, as many as the call got.
func (s *script) placeKeys(values map[string]string, many bool) (before string) {
	base, n := "", 0
	if many {
		base = "q.at+"
	}
	for _, word := range s.words {
		name, list := strings.CutSuffix(word, "*")
		if !list {
			n++
			values["q."+name] = fmt.Sprintf("KEYS[%s%d]", base, n)
			continue
		}
		values["q."+name+"["] = fmt.Sprintf("KEYS[%s%d+", base, n)
		switch name {
		case "ready", "rings":
			n += priorities
		case "plain":
			n += maxBuckets
		}
	}
	if s.short {
		return ""
	}
	buckets, last := fmt.Sprintf("#KEYS-%d", n), strconv.Itoa(n)
	if many {
		buckets = "n"
	}
	if many && s.bodies {
		last += "+n"
	}
	// The table has room for all fields that scripts set for a queue.
	return "local function names(at,n) return {at=at,buckets=" + buckets +
		",refused=false,paused=false,void=0,dropped=0,big=0,leased=0,promoted=false},at+" + last + " end\n"
}
