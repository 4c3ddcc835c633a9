package backends

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// forms lists the accepted URLs, for error messages.
const forms = "redis://, rediss://, redis+unix://, redis+cluster://, rediss+cluster://, redis+sentinel://, rediss+sentinel://, " +
	"postgres://, postgresql://, shards://, memory:// or file:"

// refuse returns an error about a part of a URL, without quoting it. A password with a
// special character that is not percent-encoded may end up anywhere: after the host's
// colon, in the path, or as the name of a parameter.
func refuse(part, hint string, args ...any) error {
	return broker.About(broker.Invalid("broker URL "+part, hint, args...), "open", "", "")
}

// location is a URL in the parts that all schemes share.
type location struct {
	scheme    string
	authority string // user, password, hosts
	path      string // without its slash
	params    url.Values
	taken     []string // names of the parameters that the backend itself reads
}

func parse(raw string) (location, error) {
	scheme, rest, _ := strings.Cut(raw, ":")
	if scheme = strings.ToLower(scheme); schemes[scheme] == fileBackend {
		return parseFile(rest)
	}
	rest, ok := strings.CutPrefix(rest, "//")
	if _, known := schemes[scheme]; !ok || !known {
		return location{}, refuse("scheme", "is missing or unknown; begin with %s", forms)
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Count(authority, "@") > 1 || strings.ContainsAny(path+query, "@#") || strings.Contains(authority, "#") {
		return location{}, refuse("user or password", "has one of / ? # @ in it; percent-encode them (%%2F %%3F %%23 %%40)")
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return location{}, refuse("parameters", "cannot be read; write them as name=value&name=value, special characters percent-encoded")
	}
	for name, values := range params {
		if len(values) > 1 && name != "addr" {
			return location{}, refuse("parameters", "have the same name twice; write each once, except addr")
		}
	}
	if !validPorts(authority) {
		return location{}, refuse("port", "is no number from 1 to 65535; write user:password@host:port")
	}
	return location{scheme: scheme, authority: authority, path: path, params: params}, nil
}

// parseFile parses what follows "file:": a path, or // and an absolute path, without a host.
func parseFile(rest string) (location, error) {
	path, ok := strings.CutPrefix(rest, "//")
	if ok && !strings.HasPrefix(path, "/") {
		return location{}, refuse("file", "names a host; write file:name.db for a relative path, file:///path/name.db for an absolute one")
	}
	if !ok {
		path = rest
	}
	name, err := url.PathUnescape(path)
	if err != nil || name == "" || strings.ContainsAny(path, "?#") {
		return location{}, refuse("file", "names no file or has ? # %% in it; "+
			"write file:name.db, these characters percent-encoded (%%3F %%23 %%25)")
	}
	return location{scheme: "file", path: name}, nil
}

// validPorts reports whether every host's port, if it has one, is a number from 1 to 65535.
// It is checked here because drivers quote a bad port in their errors, and it may be a part
// of a password.
func validPorts(authority string) bool {
	_, hosts, ok := strings.Cut(authority, "@")
	if !ok {
		hosts = authority
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if i := strings.LastIndexByte(host, ']'); i >= 0 { // an IPv6 address
			host = host[i:]
		}
		_, port, ok := strings.Cut(host, ":")
		n, err := strconv.ParseUint(port, 10, 16)
		if ok && (err != nil || n == 0) {
			return false
		}
	}
	return true
}

// take removes a parameter and returns its value.
func (l *location) take(name string) string {
	v := l.params.Get(name)
	l.params.Del(name)
	l.taken = append(l.taken, name)
	return v
}

// only refuses unknown parameters, and says which known one was probably meant.
func (l *location) only(known []string) error {
	if err := l.spelt(known); err != nil {
		return err
	}
	for name := range l.params {
		if !slices.Contains(known, name) {
			return refuse("parameters", "contain an unknown one; known here: %s", l.names(known))
		}
	}
	return nil
}

// spelt refuses parameters that differ by a letter or two from a known one.
func (l *location) spelt(known []string) error {
	for name := range l.params {
		if slices.Contains(known, name) {
			continue
		}
		if meant := nearest(name, slices.Concat(l.taken, known)); meant != "" {
			return refuse("parameter "+meant, "is misspelt; known here: %s", l.names(known))
		}
	}
	return nil
}

// names lists the parameters of the backend itself and of its driver.
func (l *location) names(known []string) string {
	return strings.Join(slices.Concat(l.taken, known), ", ")
}

// nearest returns the known name that differs from a name by one or two letters, or "".
func nearest(name string, known []string) string {
	for _, k := range known {
		if distance(strings.ToLower(name), k) <= 2 {
			return k
		}
	}
	return ""
}

// distance returns how many letters must be added, removed or replaced to turn a into b. It
// returns a lower bound if a is more than two letters longer than b.
func distance(a, b string) int {
	if len(a) > len(b)+2 {
		return len(a) - len(b) // too far away for nearest: do not compute the rest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := left
			if a[i] != b[j] {
				replaced++
			}
			left = row[j+1]
			row[j+1] = min(replaced, left+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// url writes the location down again, under the scheme that a driver knows.
func (l *location) url(scheme string, params url.Values) string {
	s := scheme + "://" + l.authority + "/" + l.path
	if len(params) > 0 {
		s += "?" + params.Encode()
	}
	return s
}

// blame names the part of a URL that a driver refused: what precedes the parameters if the
// driver refuses that alone, or else the known parameter without which it accepts the URL.
func (l *location) blame(known []string, accepted func(url.Values) bool) string {
	if !accepted(nil) {
		return "user, password, host or path"
	}
	for _, name := range known {
		if !l.params.Has(name) {
			continue
		}
		without := url.Values{}
		for k, v := range l.params {
			if k != name {
				without[k] = v
			}
		}
		if accepted(without) {
			return "parameter " + name
		}
	}
	return "parameters"
}
