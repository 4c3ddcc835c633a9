package pgbroker

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestQueries_EveryStatementPreparesOnTheSchema(t *testing.T) {
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

var numberedParam = regexp.MustCompile(`\$\d`)

// A header says what a statement does, what its parameters and its answer are, and who calls
// it: a reader should need no other file.
func TestQueries_EveryStatementHasAHeader(t *testing.T) {
	t.Parallel()
	for name := range loadQueries(DefaultSchema) {
		header, body := readQuery(name + ".sql")
		if !strings.HasPrefix(header, "-- "+name+".sql: ") {
			t.Errorf("queries/%s.sql does not begin with its name and purpose", name)
		}
		for _, part := range []string{"\n-- Params: ", "\n-- Returns: ", "\n-- Called by: "} {
			if strings.Count(header, part) != 1 {
				t.Errorf("the header of queries/%s.sql does not have one line %q", name, strings.TrimSpace(part))
			}
		}
		params := paramsOf(header)
		for i, param := range params {
			if slices.Contains(params[:i], param) {
				t.Errorf("the header of queries/%s.sql lists %s twice", name, param)
			}
			if !slices.Contains(paramUse.FindAllString(body, -1), param) {
				t.Errorf("queries/%s.sql does not use its parameter %s", name, param)
			}
		}
		if numberedParam.MatchString(body) || strings.Contains(body, "{{") {
			t.Errorf("queries/%s.sql has a parameter without a name, or a part that is not there", name)
		}
	}
}

func TestQueries_EveryStatementIsUsed(t *testing.T) {
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

func TestQueries_EveryPartIsUsed(t *testing.T) {
	t.Parallel()
	parts, err := queryFiles.ReadDir("queries/parts")
	if err != nil || len(parts) == 0 {
		t.Fatal("no parts", err)
	}
	files, err := queryFiles.ReadDir("queries")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		if text, err := queryFiles.ReadFile("queries/" + f.Name()); err == nil {
			all.Write(text)
		}
	}
	for _, part := range parts {
		name := strings.TrimSuffix(part.Name(), ".sql")
		if n := strings.Count(all.String(), "{{"+name+"}}"); n < 2 {
			t.Errorf("%d statements use queries/parts/%s.sql; a part is what several share", n, name)
		}
		if header, _ := readQuery("parts/" + part.Name()); !strings.HasPrefix(header, "-- "+name+".sql: ") {
			t.Errorf("queries/parts/%s.sql does not begin with its name and purpose", name)
		}
	}
}

func TestQueries_OnlyPlainSchemaNamesAreAccepted(t *testing.T) {
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
