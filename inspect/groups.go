package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Group is a group of dead jobs of one type with similar last errors; see Fingerprint.
type Group struct {
	Type, Fingerprint string
	Count             int // of examined jobs
	Reasons           []string
	Queues            []string
	First, Last       time.Time    // when the oldest and the newest of them died
	Message           string       // the whole error message of the newest
	Examples          []broker.Ref // at most 3

	ends []time.Time // of the examined jobs
}

// ID returns a name for the group in commands and URLs: eight hexadecimal digits
// computed from Type and Fingerprint, the same in every queue and store.
func (g *Group) ID() string {
	sum := sha256.Sum256([]byte(g.Type + "\x00" + g.Fingerprint))
	return hex.EncodeToString(sum[:4])
}

// Deaths returns how many of the examined jobs died in each of n equal parts of a time
// span, oldest first.
func (g *Group) Deaths(from, to time.Time, n int) []int {
	counts := make([]int, n)
	span := to.Sub(from)
	for _, end := range g.ends {
		if end.Before(from) || end.After(to) {
			continue
		}
		part := n - 1
		if span > 0 {
			part = min(part, int(float64(end.Sub(from))/float64(span)*float64(n)))
		}
		counts[part]++
	}
	return counts
}

// Query returns a query for the dead jobs of the group in a queue. It may find other
// jobs too; Has tells which belong to the group.
func (g *Group) Query(queue string) Query {
	return Query{Queue: queue, State: broker.StateDead, Type: g.Type, ErrorText: literal(g.Fingerprint)}
}

// PerMinute returns how many of the examined jobs died per minute, between the oldest
// and the newest of them. It is zero if there is one job or if all died within a
// second: then the rate is unknown.
func (g *Group) PerMinute() float64 {
	if took := g.Last.Sub(g.First); g.Count > 1 && took >= time.Second {
		return float64(g.Count-1) / took.Minutes()
	}
	return 0
}

// Has reports whether a dead job belongs to the group.
func (g *Group) Has(j *broker.Job) bool {
	return j.Type == g.Type && Fingerprint(j.Errors.Last().Message) == g.Fingerprint
}

const maxExamples = 3

// MaxGroups is how many groups Groups makes. It bounds their memory when each job has an
// error of its own: to 30 MB if all messages are as long as they may be, to a tenth of
// that with messages of usual length. Beside that, each job in a group takes 24 bytes.
const MaxGroups = 5000

// Groups sorts dead jobs into groups as they are added. The zero value is empty.
type Groups struct {
	Looked int // number of jobs that were added
	Others int // of Looked: jobs in no group, because there were MaxGroups others
	groups map[[2]string]*Group
}

// Add adds a dead job.
func (all *Groups) Add(j *broker.Job) {
	if all.groups == nil {
		all.groups = make(map[[2]string]*Group)
	}
	all.Looked++
	last := j.Errors.Last()
	key := [2]string{j.Type, Fingerprint(last.Message)}
	g := all.groups[key]
	if g == nil {
		if len(all.groups) == MaxGroups {
			all.Others++
			return
		}
		// Copies, so that a group does not keep whole records in memory.
		key = [2]string{strings.Clone(key[0]), strings.Clone(key[1])}
		g = &Group{Type: key[0], Fingerprint: key[1], First: j.FinishedAt}
		all.groups[key] = g
	}
	g.Count++
	g.ends = append(g.ends, j.FinishedAt)
	if j.FinishedAt.Before(g.First) {
		g.First = j.FinishedAt
	}
	if !j.FinishedAt.Before(g.Last) {
		g.Last, g.Message = j.FinishedAt, strings.Clone(last.Message)
	}
	if !slices.Contains(g.Reasons, j.Reason.String()) {
		g.Reasons = append(g.Reasons, j.Reason.String())
	}
	if !slices.Contains(g.Queues, j.Queue) {
		g.Queues = append(g.Queues, strings.Clone(j.Queue))
	}
	if len(g.Examples) < maxExamples {
		g.Examples = append(g.Examples, broker.Ref{Queue: strings.Clone(j.Queue), ID: strings.Clone(j.ID), Epoch: j.Epoch})
	}
}

// List returns the groups, the largest first.
func (all *Groups) List() []Group {
	var list []Group
	for _, g := range all.groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return list
}

// DeadGroups groups the newest dead jobs of the named queues, or of all queues, taking
// one job from each queue in turn. It stops after most jobs, or examines all if most is
// zero; all reports whether it examined all. Suppressed jobs are left out.
func (i *Inspector) DeadGroups(ctx context.Context, most int, queues ...string) (groups Groups, all bool, err error) {
	limit := most
	if most > 0 {
		limit++ // one more shows whether there are more
	}
	for j, err := range i.dead(ctx, limit, false, queues) {
		switch {
		case err != nil:
			return groups, false, err
		case most > 0 && groups.Looked >= most:
			return groups, false, nil
		}
		groups.Add(j)
	}
	return groups, true, nil
}

// DeadGroup returns the group of dead jobs whose Group.ID is id, in upper or lower case,
// in the named queues or in all. Use only Type, Fingerprint and Examples of the group:
// the other fields describe the one example, the newest job found. Suppressed jobs
// count. The error is ErrNotFound if no dead job belongs to the group; to know that,
// DeadGroup reads all dead jobs.
func (i *Inspector) DeadGroup(ctx context.Context, id string, queues ...string) (Group, error) {
	for j, err := range i.dead(ctx, 0, true, queues) {
		if err != nil {
			return Group{}, err
		}
		var one Groups
		one.Add(j)
		if g := one.List()[0]; strings.EqualFold(g.ID(), id) {
			return g, nil
		}
	}
	return Group{}, broker.About(broker.ErrNotFound, "dead group", "", id)
}

// dead lists the dead jobs of queues, one from each queue in turn, the newest first.
func (i *Inspector) dead(ctx context.Context, most int, suppressed bool, queues []string) iter.Seq2[*broker.Job, error] {
	return func(yield func(*broker.Job, error) bool) {
		infos, err := i.Queues(ctx, queues...)
		if err != nil {
			yield(nil, err)
			return
		}
		var from []Selection
		for _, info := range infos {
			if info.Listed(broker.StateDead) > 0 || suppressed && info.Suppressed > 0 {
				from = append(from, i.Select(Query{Queue: info.Name, State: broker.StateDead, Newest: true, NoPayload: true,
					Suppressed: suppressed}))
			}
		}
		InTurn(ctx, most, from...)(yield)
	}
}

// Fingerprint reduces an error message to what it has in common with similar
// ones: its first line, with "…" for quoted texts, and # for numbers, IDs,
// addresses and times. Messages with equal fingerprints probably have the same
// cause.
func Fingerprint(message string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(message, " \t\r\n"), "\n")
	if len(line) > maxFingerprint {
		line = strings.ToValidUTF8(line[:maxFingerprint-len("…")], "…") // the cut may have split a character
	}
	line = quotedText.ReplaceAllString(line, `$1"…"`)
	line = uuids.ReplaceAllString(line, "#")
	line = wordsWithDigits.ReplaceAllStringFunc(line, func(word string) string {
		if len(word) >= 16 || len(word) >= 6 && hexWord.MatchString(word) {
			return "#"
		}
		return digits.ReplaceAllString(word, "#")
	})
	return strings.TrimSpace(joinedNumbers.ReplaceAllString(line, "#"))
}

// literal returns the longest part of a fingerprint that all its messages contain
// unchanged.
func literal(fingerprint string) (longest string) {
	for part := range strings.SplitSeq(strings.ReplaceAll(fingerprint, `"…"`, "#"), "#") {
		for piece := range strings.SplitSeq(part, "…") {
			if len(piece) > len(longest) {
				longest = piece
			}
		}
	}
	return longest
}

const maxFingerprint = 500 // bytes of a message that count

var (
	quotedText      = regexp.MustCompile(`(^|[\s(=:,\[{])(?:"(?:[^"\\]|\\.)*"|'[^']*'|` + "`[^`]*`)")
	uuids           = regexp.MustCompile(`\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`)
	wordsWithDigits = regexp.MustCompile(`[0-9A-Za-z_]*[0-9][0-9A-Za-z_]*`)
	hexWord         = regexp.MustCompile(`^(?:0x)?[0-9a-fA-F]+$`)
	digits          = regexp.MustCompile(`[0-9]+`)
	joinedNumbers   = regexp.MustCompile(`#(?:[.:,/+-]#|T#)+Z?`)
)
