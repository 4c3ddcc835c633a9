package readmetest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/labels"
)

const configurationPage = "docs/configuration.md"

// docs/configuration.md is generated from the source: the comments of
// configurations and of ConfigFromEnv, and the rules of policies.
func TestConfiguration_ThePageHasEachSettingOfTheSource(t *testing.T) {
	t.Parallel()
	root := os.DirFS(filepath.Join("..", ".."))
	var page bytes.Buffer
	page.WriteString("# Configuration\n\nEvery setting, with its default. Made by a test from the source; " +
		"`go test ./internal/readmetest -update` makes it anew.\n\n")
	env := environment(t, root, &page)
	parameters(t, root, &page)
	rules(&page)
	limits(&page)
	settings(t, root, env, &page)

	file := filepath.Join("..", "..", configurationPage)
	if *update {
		if err := os.WriteFile(file, page.Bytes(), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, page.Bytes()) {
		t.Errorf("%s is not what the source says; run go test ./internal/readmetest -update (%v)", configurationPage, err)
	}
}

// parse reads the files of a package, without tests.
func parse(t *testing.T, root fs.FS, dir string) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := fs.Glob(root, path.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return fset, files
}

var variable = regexp.MustCompile(`(?m)^\t(JOBS_[A-Z_]+) +(.*)$`)

// environment writes the table of ConfigFromEnv, and returns the variable of each field of Config.
func environment(t *testing.T, root fs.FS, page *bytes.Buffer) map[string]string {
	t.Helper()
	_, files := parse(t, root, ".")
	env := make(map[string]string)
	page.WriteString("## Environment\n\n`jobs.ConfigFromEnv` reads these. Unset and empty ones mean the default of their field.\n\n" +
		"| variable | field of `Config`, and an example |\n|---|---|\n")
	var read []string
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "ConfigFromEnv" {
					for _, m := range variable.FindAllStringSubmatch(n.Doc.Text(), -1) {
						fmt.Fprintf(page, "| `%s` | %s |\n", m[1], m[2])
						field, _, _ := strings.Cut(m[2], ":")
						env[field] = m[1]
					}
				}
			case *ast.BasicLit:
				if name := strings.Trim(n.Value, `"`); strings.HasPrefix(name, "JOBS_") && !slices.Contains(read, name) {
					read = append(read, name)
				}
			}
			return true
		})
	}
	for _, name := range read {
		if !strings.Contains(page.String(), "`"+name+"`") {
			t.Errorf("the comment of ConfigFromEnv does not name %s, which is read", name)
		}
	}
	if len(read) < 10 {
		t.Errorf("only the variables %v were found: they are looked for in the wrong way", read)
	}
	page.WriteString("\nThe example worker [reads more](../deploy/README.md#what-a-worker-reads); " +
		"`jobsctl --help` has those of the command.\n\n")
	return env
}

// parameters writes the parameters of broker URLs.
func parameters(t *testing.T, root fs.FS, page *bytes.Buffer) {
	t.Helper()
	_, files := parse(t, root, "backends")
	ours, drivers := make(map[string][]string), make(map[string][]string)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				ast.Inspect(n, func(in ast.Node) bool {
					call, ok := in.(*ast.CallExpr)
					if !ok || len(call.Args) != 1 {
						return true
					}
					sel, ok := call.Fun.(*ast.SelectorExpr)
					name, literal := call.Args[0].(*ast.BasicLit)
					if ok && literal && (sel.Sel.Name == "take" || sel.Sel.Name == "takeBool") {
						if kind, opens := strings.CutPrefix(n.Name.Name, "open"); opens {
							ours[kind] = append(ours[kind], strings.Trim(name.Value, `"`))
						}
					}
					return true
				})
			case *ast.ValueSpec:
				if name := n.Names[0].Name; strings.HasSuffix(name, "Params") {
					ast.Inspect(n, func(in ast.Node) bool {
						if lit, ok := in.(*ast.BasicLit); ok && lit.Kind == token.STRING {
							drivers[name] = append(drivers[name], strings.Trim(lit.Value, `"`))
						}
						return true
					})
				}
			}
			return true
		})
	}
	if len(ours["Redis"]) < 4 || len(ours["Postgres"]) < 2 || len(drivers["redisParams"]) < 5 || len(drivers["postgresParams"]) < 5 {
		t.Errorf("only the parameters %v and %v were found: they are looked for in the wrong way", ours, drivers)
	}
	page.WriteString("## Broker URLs\n\nFor `backends.Open`, `JOBS_BROKER` and the option `--broker` of the command. " +
		"[Package backends](../backends/open.go) has each form of a URL.\n\n| scheme | parameters of ours | of the driver |\n|---|---|---|\n")
	list := func(lists ...[]string) string {
		all := slices.Concat(lists...)
		slices.Sort(all)
		return "`" + strings.Join(slices.Compact(all), "` `") + "`"
	}
	d := drivers
	fmt.Fprintf(page, "| `redis` `rediss` `redis+unix` | %s | %s |\n", list(ours["Redis"]), list(d["redisParams"], d["oneParams"]))
	fmt.Fprintf(page, "| `redis+cluster` `rediss+cluster` | %s | %s |\n", list(ours["Redis"]), list(d["redisParams"], d["clusterParams"]))
	fmt.Fprintf(page, "| `redis+sentinel` `rediss+sentinel` | %s | %s |\n", list(ours["Redis"]), list(d["redisParams"], d["sentinelParams"]))
	fmt.Fprintf(page, "| `postgres` `postgresql` | %s | %s, and settings of the session |\n",
		list(ours["Postgres"]), list(d["postgresParams"]))
	page.WriteString("| `shards` | a name for each shard, `join` `leave` `at` `joined`: see [shards](backends/shards.md) | |\n" +
		"| `file` | none | |\n| `memory` | none | |\n\n")
}

// rules writes the rules of policies.
func rules(page *bytes.Buffer) {
	page.WriteString("## Policies of queues and keys\n\nThey are stored with the queue, hold for all servers, and change while jobs run: " +
		"`jobsctl queues policy`, `jobsctl keys policy`, or `inspect.Inspector.SetPolicy`.\n\n" +
		"| rule | of | what | default |\n|---|---|---|---|\n")
	for _, r := range broker.Rules() {
		of := []string{}
		if r.Queue {
			of = append(of, "queue")
		}
		if r.Key {
			of = append(of, "key")
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", r.Name, strings.Join(of, ", "), r.Help, r.Zero)
	}
	page.WriteString("\n")
}

// limits writes how large and how many things may be.
func limits(page *bytes.Buffer) {
	page.WriteString("## Sizes and numbers\n\nLarger values are refused with an error that names the field, the limit and the remedy. " +
		"`Enqueue` and `EnqueueMany` refuse only the job that has one.\n\n| what | limit |\n|---|---|\n")
	row := func(what, format string, args ...any) {
		fmt.Fprintf(page, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	row("payload", "%d MiB; keep [larger ones](codecs.md#claim-checks-and-their-blobs) elsewhere", broker.DefaultMaxPayload>>20)
	row("headers of a job", "%d, together %d KiB", broker.MaxHeaders, broker.MaxHeaderBytes>>10)
	row("name of a queue, type, ID, key, correlation ID, source",
		"1 to %d bytes of UTF-8 without control characters; in queues also no braces", broker.MaxNameLen)
	row("result", "%d MiB", broker.MaxResult>>20)
	row("checkpoint and results of steps, together", "%d KiB", broker.MaxKept>>10)
	row("error message, stack in a job's history", "%d KiB each; longer ones are cut", broker.MaxErrorBytes>>10)
	row("retries of a job, its crash budget", "%d", broker.MaxRetriesCap)
	row("delay, timeout, retention", "%d years; times before %d", int(broker.MaxDelay.Hours()/24/365), broker.MaxTime.Year())
	row("labels of a job or of a server", "%d", labels.Max)
	page.WriteString("\n")
}

// settings writes the fields of each exported configuration.
func settings(t *testing.T, root fs.FS, env map[string]string, page *bytes.Buffer) {
	t.Helper()
	page.WriteString("## In code\n\n")
	found := 0
	for _, dir := range packages(t, root) {
		fset, files := parse(t, root, dir)
		p, err := doc.NewFromFiles(fset, files, "github.com/seed81422ce9/jobs/"+dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range p.Types {
			spec := typ.Decl.Specs[0].(*ast.TypeSpec)
			fields, ok := spec.Type.(*ast.StructType)
			if !ok || !strings.HasSuffix(typ.Name, "Config") {
				continue
			}
			found++
			name := p.Name + "." + typ.Name
			fmt.Fprintf(page, "### %s\n\n%s\n\n", name, sentence(typ.Doc))
			for _, field := range fields.Fields.List {
				text := sentence(field.Doc.Text() + field.Comment.Text())
				kind := types.ExprString(field.Type)
				for _, n := range field.Names {
					if !n.IsExported() {
						continue
					}
					if text == "" {
						t.Errorf("%s.%s has no comment, so the page says nothing about it", name, n.Name)
					}
					if kind != "bool" && !saysDefault.MatchString(text) && !saysDefault.MatchString(typ.Doc) {
						t.Errorf("%s.%s: its comment does not say what its zero value means, or that it is required", name, n.Name)
					}
					of := ""
					if v := env[n.Name]; v != "" && name == "jobs.Config" {
						of = ", `" + v + "`"
					}
					fmt.Fprintf(page, "- **`%s`** `%s`%s: %s\n", n.Name, kind, of, text)
				}
			}
			page.WriteString("\n")
		}
	}
	if found < 15 {
		t.Errorf("only %d configurations were found: they are looked for in the wrong way", found)
	}
}

// saysDefault matches a comment that says what the zero value means.
var saysDefault = regexp.MustCompile(`(?i)\bzero\b|\bnil\b|\bempty\b|\bdefaults?\b|\brequired\b|\bunless\b|\bwithout\b`)

// packages returns the directories of packages that applications import, the root first.
func packages(t *testing.T, root fs.FS) (dirs []string) {
	t.Helper()
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch d.Name() {
		case "internal", "testdata", "cmd", "benchmarks", "examples", "jobstest", "docs", "deploy", "compat", "conformance":
			return fs.SkipDir
		}
		if p != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		dirs = append(dirs, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

var reference = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// sentence returns a comment as one line of Markdown.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = reference.ReplaceAllString(text, "`$1`")
	return strings.NewReplacer("*", `\*`, "<", `\<`, "|", `\|`).Replace(text)
}
