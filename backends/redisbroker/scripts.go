package redisbroker

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed scripts
var scriptFiles embed.FS

// script is one of scripts/*.lua, expanded: "-- @include x" stands for
// scripts/lib/x.lua, once per script, and the names on the KEYS line of the
// header become the function names, which gives a script its keys by name.
type script struct {
	name   string
	source string
	sha    string
	keys   []int // places in keyNames
}

var (
	createScript  = mustScript("create")
	enqueueScript = mustScript("enqueue")
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

	scripts = []*script{createScript, enqueueScript, claimScript, settleScript, renewScript, retireScript, reclaimScript, findScript, operateScript, dropScript, policyScript, queuesScript, pruneScript, markScript, watchScript}
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
	s := &script{name: name}
	for _, key := range declared(string(header)) {
		at := slices.Index(keyNames, key)
		if at < 0 {
			return nil, fmt.Errorf("script %s: key %q is unknown", name, key)
		}
		s.keys = append(s.keys, at)
	}
	body, err := expand(name+".lua", make(map[string]bool))
	if err != nil {
		return nil, err
	}
	s.source = s.names() + body
	sum := sha1.Sum([]byte(s.source))
	s.sha = hex.EncodeToString(sum[:])
	return s, nil
}

// declared reads the names on the KEYS line of a header.
func declared(text string) []string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "-- KEYS "); ok {
			rest, _, _ = strings.Cut(rest, "(")
			return strings.Fields(rest)
		}
	}
	return nil
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
			out.WriteString(line)
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

// names writes the function names(at, n): it returns the keys behind KEYS[at]
// of a queue with n buckets, and the place of the last one.
func (s *script) names() string {
	var fields, buckets strings.Builder
	n := 0
	for _, at := range s.keys {
		switch key := keyNames[at]; key {
		case "r*":
			fmt.Fprintf(&fields, "r={KEYS[at+%d],KEYS[at+%d],KEYS[at+%d],KEYS[at+%d]},", n+1, n+2, n+3, n+4)
			n += priorities
		case "b*":
			fields.WriteString("b={},")
			fmt.Fprintf(&buckets, "for i=1,n do q.b[i]=KEYS[at+%d+i] end at=at+n ", n)
		default:
			n++
			fmt.Fprintf(&fields, "%s=KEYS[at+%d],", key, n)
		}
	}
	return fmt.Sprintf("local function names(at,n) local q={%s} %sreturn q,at+%d end\n", fields.String(), buckets.String(), n)
}
