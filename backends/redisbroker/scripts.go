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

var (
	createScript   = mustScript("create")
	plainScript    = mustScript("enqueue_plain")
	enqueueScript  = mustScript("enqueue")
	meetScript     = mustScript("enqueue_meet")
	restoreScript  = mustScript("restore")
	claimScript    = mustScript("claim")
	settleScript   = mustScript("settle")
	registerScript = mustScript("register")
	renewScript    = mustScript("renew")
	extendScript   = mustScript("extend")
	retireScript   = mustScript("retire")
	reclaimScript  = mustScript("reclaim")
	findScript     = mustScript("find")
	operateScript  = mustScript("operate")
	dropScript     = mustScript("drop")
	policyScript   = mustScript("policy")
	queuesScript   = mustScript("queues")
	keysScript     = mustScript("keys")
	pruneScript    = mustScript("prune")
	markScript     = mustScript("mark")
	watchScript    = mustScript("watch")

	examineRecordScript  = mustScript("examine_record")
	examineJobsScript    = mustScript("examine_jobs")
	examineEntriesScript = mustScript("examine_entries")
	examineLeasesScript  = mustScript("examine_leases")
	examineNamesScript   = mustScript("examine_names")
	examineKeysScript    = mustScript("examine_keys")
	examineMarksScript   = mustScript("examine_marks")

	scripts = []*script{createScript, plainScript, enqueueScript, meetScript, restoreScript, claimScript, settleScript, registerScript,
		renewScript, extendScript, retireScript, reclaimScript, findScript, operateScript, dropScript, policyScript, queuesScript,
		keysScript, pruneScript, markScript, watchScript, examineRecordScript, examineJobsScript, examineEntriesScript,
		examineLeasesScript, examineNamesScript, examineKeysScript, examineMarksScript}
)

func mustScript(name string) *script {
	s, err := parseScript(name)
	if err != nil {
		panic("redisbroker: " + err.Error()) // an embedded file is wrong
	}
	return s
}

func parseScript(name string) (*script, error) {
	header, err := scriptFiles.ReadFile(path.Join("scripts", name+".lua"))
	if err != nil {
		return nil, err
	}
	s := &script{name: name, words: declared(string(header), "KEYS", "ARGV"), args: declared(string(header), "ARGV", "Reply")}
	s.short = len(s.args) == 0 || s.args[0] != "now"
	for _, word := range s.words {
		at := slices.Index(keyNames, keyWords[word])
		if at < 0 {
			return nil, fmt.Errorf("script %s: key %q is unknown", name, word)
		}
		s.keys = append(s.keys, at)
		switch word {
		case "ready*", "rings*":
			s.lists++
		case "bodies*":
			s.bodies = true
		}
	}
	body, err := expand(name+".lua", make(map[string]bool))
	if err != nil {
		return nil, err
	}
	if body, err = placeConstants(body); err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	body = replaceWords(body, map[string]string{"HAS_BODIES": strconv.FormatBool(s.bodies)})
	many := strings.Contains(string(header), manyQueues)
	s.source = s.placeKeys(placeFields(s.placeArgs(body, many)), many)
	sum := sha1.Sum([]byte(s.source))
	s.sha = hex.EncodeToString(sum[:])
	return s, nil
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

// code returns a line without its comment, or "" for a comment line. It uses no regular expression,
// since every program that imports the package runs this when it starts.
func code(line string) string {
	if strings.HasPrefix(strings.TrimSpace(line), "--") {
		return ""
	}
	if before, _, ok := strings.Cut(line, " -- "); ok {
		return strings.TrimRight(before, " \t") + "\n"
	}
	return line
}

// keyUse matches the use of a key in a script: q.retry, q.ready[p], q.bodies[i]. argUse matches
// the use of an argument: args.worker; first.jobs is the position in ARGV where a list begins.
// fieldUse matches the use of a field of the record: m.paused. They begin with letters, since
// such expressions are fast; no other name in a script ends in this way.
var (
	keyUse   = regexp.MustCompile(`q\.([a-z_]+)(\[)?`)
	argUse   = regexp.MustCompile(`args\.([a-z_]+)`)
	firstUse = regexp.MustCompile(`first\.([a-z_]+)`)
	fieldUse = regexp.MustCompile(`m\.([a-z_]+)`)
	opening  = regexp.MustCompile(`= open\('([a-z_', ]+)'\)`)
)

// constants matches a line that names numbers or strings: local STOP, SKIP = 1, 2.
var constants = regexp.MustCompile(`^local ([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = ((?:-?\d+|'[^']*')(?:, (?:-?\d+|'[^']*'))*)\n$`)

// placeConstants replaces the names of constants by their values, since Lua allows only 200
// local names in a script, and functions need most of them.
func placeConstants(body string) (string, error) {
	values := make(map[string]string)
	var rest strings.Builder
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
	return replaceWords(rest.String(), values), nil
}

// replaceWords replaces words of a script, but not in its strings.
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
			for end < len(body) && isWord(body[end]) {
				end++
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

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// placeArgs replaces the names of arguments by their positions in ARGV. A name with a star is
// a list. If the list buckets* has an entry for each queue, the next arguments follow these
// entries. Arguments after another list must be found by the script.
func (s *script) placeArgs(body string, many bool) string {
	places, base := make(map[string]string, len(s.args)), ""
	for i, word := range s.args {
		name, list := strings.CutSuffix(word, "*")
		places[name] = base + strconv.Itoa(i+1)
		if list && !(many && name == "buckets") {
			break
		}
		if list {
			base = "tonumber(ARGV[2])-1+" // the number of queues
		}
	}
	put := func(format string) func(string) string {
		return func(use string) string {
			if at, ok := places[use[strings.Index(use, ".")+1:]]; ok {
				return fmt.Sprintf(format, at)
			}
			return use
		}
	}
	body = argUse.ReplaceAllStringFunc(body, put("ARGV[%s]"))
	return firstUse.ReplaceAllStringFunc(body, put("%s"))
}

// placeFields replaces the fields of the record, which a script names in its call of open, by
// their positions in the list m that open returns.
func placeFields(body string) string {
	call := opening.FindStringSubmatch(body)
	if call == nil {
		return body
	}
	fields := strings.Split(call[1], "', '")
	return fieldUse.ReplaceAllStringFunc(body, func(use string) string {
		if at := slices.Index(fields, use[len("m."):]); at >= 0 {
			return fmt.Sprintf("m[%d]", at+3) // after the version and the number of buckets
		}
		return use
	})
}

// placeKeys replaces the names of keys by their positions in KEYS. It adds the function
// names(at, n) at the beginning, which returns the queue whose keys follow KEYS[at], and the
// position of the last of these keys. In a call for several queues, the queue has n buckets; in
// other calls, as many as the call got.
func (s *script) placeKeys(body string, many bool) string {
	places, n := make(map[string]int), 0
	for _, word := range s.words {
		switch word {
		case "ready*", "rings*":
			places[strings.TrimSuffix(word, "*")+"["], n = n, n+priorities
		case "bodies*":
			places["bodies["] = n
		case "plain*":
			n += maxBuckets
		default:
			n++
			places[word] = n
		}
	}
	base := ""
	if many {
		base = "q.at+"
	}
	body = keyUse.ReplaceAllStringFunc(body, func(use string) string {
		name := use[len("q."):]
		at, ok := places[name]
		switch {
		case !ok:
			return use
		case strings.HasSuffix(name, "["):
			return fmt.Sprintf("KEYS[%s%d+", base, at)
		}
		return fmt.Sprintf("KEYS[%s%d]", base, at)
	})
	if s.short {
		return body
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
		",refused=false,paused=false,void=0,dropped=0,big=0,leased=0,promoted=false},at+" + last + " end\n" + body
}
