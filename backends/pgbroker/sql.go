package pgbroker

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

//go:embed queries/*.sql queries/parts/*.sql
var queryFiles embed.FS

// queries has the statements as they are sent to the server, by the names of their files. In a
// file, parameters have names, such as @queue, and the header lists the names in the order of the
// arguments. {{part}} stands for the content of a file of queries/parts, which several statements
// share.
type queries map[string]string

// DefaultSchema is used if a Config names no schema. The embedded files are written for
// this name.
const DefaultSchema = "jobs"

var (
	schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)
	paramUse   = regexp.MustCompile(`@[a-z_]+`)
	partUse    = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
)

// checkPlace refuses a nil pool, and names of schemas that would need quotes, or that are too long
// for the name of a notification channel.
func checkPlace(pool *pgxpool.Pool, schema string) error {
	if pool == nil {
		return broker.Invalid("pool", "is nil; make one with pgxpool.New, and check its error")
	}
	if !schemaName.MatchString(schema) {
		return broker.Invalid("schema", "%.64q is not accepted; use 1 to 48 of a-z, 0-9 and _, a letter first", schema)
	}
	return nil
}

// inSchema replaces "jobs." in SQL by the name of a schema, unless it is the end of a longer word.
// checkPlace must have accepted the name.
func inSchema(sql, schema string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(sql, DefaultSchema+".")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if before != "" && wordByte(before[len(before)-1]) {
			b.WriteString(DefaultSchema + ".")
		} else {
			b.WriteString(`"` + schema + `".`)
		}
		sql = after
	}
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func loadQueries(schema string) queries {
	q := make(queries)
	for name, sql := range numberedQueries() {
		q[name] = inSchema(sql, schema)
	}
	return q
}

// numberedQueries returns the statements with their parts and numbered parameters, but without
// a schema. It makes them once: a program may open many brokers, and tests open thousands.
var numberedQueries = sync.OnceValue(func() map[string]string {
	files, err := queryFiles.ReadDir("queries")
	if err != nil {
		panic(err)
	}
	all := make(map[string]string, len(files))
	for _, f := range files {
		if !f.IsDir() {
			header, body := readQuery(f.Name())
			all[strings.TrimSuffix(f.Name(), ".sql")] = numbered(f.Name(), header, body)
		}
	}
	return all
})

// readQuery returns a file's header, and the statement with its parts in place.
func readQuery(name string) (header, body string) {
	text, err := queryFiles.ReadFile("queries/" + name)
	if err != nil {
		panic(err)
	}
	body = statement(string(text))
	header = strings.TrimSuffix(string(text), body)
	return header, partUse.ReplaceAllStringFunc(body, func(use string) string {
		_, part := readQuery("parts/" + strings.Trim(use, "{}") + ".sql")
		return strings.TrimSpace(part)
	})
}

// paramsOf returns the names of a statement's parameters, in their order.
func paramsOf(header string) []string {
	_, params, _ := strings.Cut(header, "-- Params: ")
	params, _, _ = strings.Cut(params, "\n-- Returns: ")
	return paramUse.FindAllString(params, -1)
}

// numbered replaces the parameters of a statement by their numbers: the positions of their
// names in the header.
func numbered(file, header, body string) string {
	params := paramsOf(header)
	return paramUse.ReplaceAllStringFunc(body, func(param string) string {
		n := slices.Index(params, param)
		if n < 0 {
			panic(fmt.Sprintf("pgbroker: the header of %s does not list %s", file, param))
		}
		return "$" + strconv.Itoa(n+1)
	})
}

// statement returns a file without its header, which the server does not need. Comments within
// a statement are sent with it.
func statement(file string) string {
	for strings.HasPrefix(file, "--") {
		_, file, _ = strings.Cut(file, "\n")
	}
	return file
}

// get returns a statement. It panics if no file has this name.
func (q queries) get(name string) string {
	sql, ok := q[name]
	if !ok {
		panic(fmt.Sprintf("pgbroker: no statement %q", name))
	}
	return sql
}
