package pgbroker

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// queries are the statements, by the names of their files, with the schema's
// name in place.
type queries map[string]string

// DefaultSchema is the schema of a Config that names none. The embedded files
// are written for it, so that they can be run by hand.
const DefaultSchema = "jobs"

var (
	schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)
	schemaUse  = regexp.MustCompile(`\bjobs\.`)
)

// checkSchema refuses names that would need quoting, or that would leave no
// room in the name of a notification channel.
func checkSchema(schema string) error {
	if !schemaName.MatchString(schema) {
		return broker.Invalid("schema", "%.64q is not accepted; use 1 to 48 of a-z, 0-9 and _, a letter first", schema)
	}
	return nil
}

// inSchema puts a schema's name, which checkSchema accepted, into SQL.
func inSchema(sql, schema string) string {
	return schemaUse.ReplaceAllLiteralString(sql, `"`+schema+`".`)
}

func loadQueries(schema string) queries {
	files, err := queryFiles.ReadDir("queries")
	if err != nil {
		panic(err)
	}
	q := make(queries, len(files))
	for _, f := range files {
		text, err := queryFiles.ReadFile("queries/" + f.Name())
		if err != nil {
			panic(err)
		}
		q[strings.TrimSuffix(f.Name(), ".sql")] = inSchema(statement(string(text)), schema)
	}
	return q
}

// statement is a file without its header, which need not travel.
func statement(file string) string {
	for strings.HasPrefix(file, "--") {
		_, file, _ = strings.Cut(file, "\n")
	}
	return file
}

// get returns a statement; a name without a file is a mistake in this package.
func (q queries) get(name string) string {
	sql, ok := q[name]
	if !ok {
		panic(fmt.Sprintf("pgbroker: no statement %q", name))
	}
	return sql
}
