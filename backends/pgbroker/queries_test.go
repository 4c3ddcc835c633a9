package pgbroker

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestEveryStatementPreparesOnTheSchema(t *testing.T) {
	t.Parallel()
	f := open(t)
	conn, err := f.db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, sql := range f.sql {
		if _, err := conn.Conn().Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("queries/%s.sql: %v", name, err)
		}
	}
}

// A header says what a statement does, every parameter, what comes back, and
// who calls it: the reader of one file should need no other.
func TestEveryStatementHasAHeader(t *testing.T) {
	t.Parallel()
	param := regexp.MustCompile(`\$(\d+)`)
	for name := range loadQueries(DefaultSchema) {
		text, err := queryFiles.ReadFile("queries/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		body := statement(string(text))
		header := strings.TrimSuffix(string(text), body)
		if !strings.HasPrefix(header, "-- "+name+".sql: ") {
			t.Errorf("queries/%s.sql does not begin with its name and purpose", name)
		}
		for _, part := range []string{"\n-- Params: ", "\n-- Returns: ", "\n-- Called by: "} {
			if strings.Count(header, part) != 1 {
				t.Errorf("the header of queries/%s.sql does not have one line %q", name, strings.TrimSpace(part))
			}
		}
		used := make(map[int]bool)
		most := 0
		for _, m := range param.FindAllStringSubmatch(body, -1) {
			n, _ := strconv.Atoi(m[1])
			used[n], most = true, max(most, n)
		}
		for n := 1; n <= most; n++ {
			if !used[n] {
				t.Errorf("queries/%s.sql skips parameter $%d", name, n)
			}
			if !strings.Contains(header, "$"+strconv.Itoa(n)+" ") && !strings.Contains(header, "to $"+strconv.Itoa(most)+" ") {
				t.Errorf("the header of queries/%s.sql does not explain $%d", name, n)
			}
		}
	}
}

func TestEveryStatementIsUsed(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".go") && !strings.HasSuffix(f.Name(), "_test.go") {
			text, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	for name := range loadQueries(DefaultSchema) {
		if !strings.Contains(code.String(), `step("`+name+`"`) {
			t.Errorf("nothing runs queries/%s.sql", name)
		}
	}
}

func TestOnlyPlainSchemaNamesAreAccepted(t *testing.T) {
	t.Parallel()
	db := connect(t, testenv.Postgres(t), 2)
	for _, name := range []string{`a"b`, "a.b", "a b", "A", "1a", "ä", "a;drop schema public", strings.Repeat("a", 49)} {
		if err := Migrate(t.Context(), db, name); err == nil {
			t.Errorf("Migrate accepted the schema %q", name)
		}
		if _, err := New(t.Context(), db, Config{Schema: name}); err == nil {
			t.Errorf("New accepted the schema %q", name)
		}
	}
}
