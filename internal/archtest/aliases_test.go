package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// shown lists the types of package broker that applications see under an alias in another package.
// Documentation shows no fields for an alias, so its comment must list them.
var shown = []struct{ dir, alias, of string }{
	{"", "JobRecord", "Job"},
	{"inspect", "Query", "Query"},
	{"inspect", "Policy", "Policy"},
	{"inspect", "WorkerInfo", "WorkerInfo"},
}

func TestAliases_ShowTheFieldsWhereTheyAreImported(t *testing.T) {
	t.Parallel()
	contract := structs(parse(t, "../../broker"))
	for _, c := range shown {
		comment := aliasComment(parse(t, filepath.Join("../..", c.dir)), c.alias)
		if comment == "" {
			t.Errorf("package in %[2]q: %[1]s is not an alias with a comment", c.alias, c.dir)
			continue
		}
		want, got := flat(contract, c.of), block(t, comment)
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("the comment of %s in %q shows these fields:\n\t%s\nbut broker.%s has these:\n\t%s",
				c.alias, c.dir, strings.Join(got, "\n\t"), c.of, strings.Join(want, "\n\t"))
		}
	}
}

// structs returns the struct types of a package by name.
func structs(files []*ast.File) map[string]*ast.StructType {
	found := make(map[string]*ast.StructType)
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return found
}

// flat lists the exported fields of a struct as "name type". It replaces an embedded struct by its
// fields.
func flat(of map[string]*ast.StructType, name string) (list []string) {
	for _, f := range of[name].Fields.List {
		typ := types.ExprString(f.Type)
		if len(f.Names) == 0 {
			list = append(list, flat(of, typ)...)
			continue
		}
		for _, n := range f.Names {
			if n.IsExported() {
				list = append(list, n.Name+" "+typ)
			}
		}
	}
	return list
}

// aliasComment returns the comment of an alias, or of its declaration group.
func aliasComment(files []*ast.File, name string) (text string) {
	for _, file := range files {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == name && s.Assign.IsValid() {
					if text = s.Doc.Text(); text == "" {
						text = d.Doc.Text()
					}
				}
			}
		}
	}
	return text
}

// block parses the indented lines of a comment as the fields of a struct.
func block(t *testing.T, comment string) []string {
	t.Helper()
	var source strings.Builder
	source.WriteString("package p\ntype T struct {\n")
	for line := range strings.Lines(comment) {
		if strings.HasPrefix(line, "\t") {
			source.WriteString(strings.ReplaceAll(line, "broker.", ""))
		}
	}
	source.WriteString("}\n")
	file, err := parser.ParseFile(token.NewFileSet(), "", source.String(), 0)
	if err != nil {
		t.Fatalf("the indented lines of the comment are not struct fields: %v\n%s", err, source.String())
	}
	return flat(structs([]*ast.File{file}), "T")
}

// parse parses the source of the package in dir, without its tests.
func parse(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
