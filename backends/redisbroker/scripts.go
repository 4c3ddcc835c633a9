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

// script is one of scripts/*.lua, expanded: "-- @include x" stands for
// scripts/lib/x.lua, once per script, and q.x for the key that the header declares
// by the word x, of the queue q. Putting the place in KEYS there, rather than
// making a table of the words, saves some µs in each call.
type script struct {
	name   string
	source string
	sha    string
	words  []string // the keys it declares
	keys   []int    // their places in keyNames
	short  bool     // gets no time and no numbers of queues and buckets, and does not open a queue
}

var (
	createScript  = mustScript("create")
	plainScript   = mustScript("enqueue_plain")
	enqueueScript = mustScript("enqueue")
	restoreScript = mustScript("restore")
	claimScript   = mustScript("claim")
	settleScript  = mustScript("settle")
	renewScript   = mustScript("renew")
	retireScript  = mustScript("retire")
	reclaimScript = mustScript("reclaim")
	findScript    = mustScript("find")
	operateScript = mustScript("operate")
	dropScript    = mustScript("drop")
	policyScript  = mustScript("policy")
	queuesScript  = mustScript("queues")
	pruneScript   = mustScript("prune")
	markScript    = mustScript("mark")
	watchScript   = mustScript("watch")

	examineRecordScript = mustScript("examine_record")
	examineJobsScript   = mustScript("examine_jobs")
	examinePlacesScript = mustScript("examine_places")
	examineLeasesScript = mustScript("examine_leases")
	examineNamesScript  = mustScript("examine_names")
	examineMarksScript  = mustScript("examine_marks")

	scripts = []*script{createScript, plainScript, enqueueScript, restoreScript, claimScript, settleScript, renewScript, retireScript,
		reclaimScript, findScript, operateScript, dropScript, policyScript, queuesScript, pruneScript, markScript, watchScript,
		examineRecordScript, examineJobsScript, examinePlacesScript, examineLeasesScript, examineNamesScript, examineMarksScript}
)

func mustScript(name string) *script {
	s, err := parseScript(name)
	if err != nil {
		panic("redisbroker: " + err.Error()) // a mistake in an embedded file
	}
	return s
}

func parseScript(name string) (*script, error) {
	header, err := scriptFiles.ReadFile(path.Join("scripts", name+".lua"))
	if err != nil {
		return nil, err
	}
	s := &script{name: name, short: !opens.Match(header)}
	s.words = declared(string(header))
	for _, word := range s.words {
		at := slices.Index(keyNames, keyWords[word])
		if at < 0 {
			return nil, fmt.Errorf("script %s: key %q is unknown", name, word)
		}
		s.keys = append(s.keys, at)
	}
	body, err := expand(name+".lua", make(map[string]bool))
	if err != nil {
		return nil, err
	}
	s.source = s.place(body, strings.Contains(string(header), manyQueues))
	sum := sha1.Sum([]byte(s.source))
	s.sha = hex.EncodeToString(sum[:])
	return s, nil
}

// declared reads the words between KEYS and ARGV in a header.
func declared(text string) []string {
	_, text, _ = strings.Cut(text, "-- KEYS ")
	text, _, _ = strings.Cut(text, "-- ARGV ")
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

// code is a line without its comment: nothing when it is one. Every program that
// imports the package pays for this when it starts, hence no regular expression.
func code(line string) string {
	if strings.HasPrefix(strings.TrimSpace(line), "--") {
		return ""
	}
	if before, _, ok := strings.Cut(line, " -- "); ok {
		return strings.TrimRight(before, " \t") + "\n"
	}
	return line
}

// opens says that a script is one of those whose arguments lib/open.lua knows.
var opens = regexp.MustCompile(`(?m)^-- ARGV   (now|0); [1q]`)

// keyUse is the use of a key in a script: q.retry, q.ready[p], q.bodies[i]. It begins
// with letters, which are searched for quickly; no other name in a script ends in q.
var keyUse = regexp.MustCompile(`q\.([a-z_]+)(\[)?`)

// place writes places in KEYS for the names of keys in a script, and in front
// the function names(at, n): it returns the queue, with n buckets, whose keys
// are those behind KEYS[at], and the place of the last of them.
func (s *script) place(body string, many bool) string {
	places, n := make(map[string]int), 0
	for _, word := range s.words {
		switch word {
		case "ready*":
			places["ready["], n = n, n+priorities
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
	last := strconv.Itoa(n)
	if slices.Contains(s.keys, len(keyNames)-1) {
		last += "+n"
	}
	if s.short {
		return body
	}
	// The table is made with room for what scripts note of a queue.
	return "local function names(at,n) " +
		"return {at=at,buckets=n,refused=false,paused=false,void=0,dropped=0,big=0,leased=0,late=false},at+" + last + " end\n" + body
}
