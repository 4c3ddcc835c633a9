package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// maxExported bounds the names that package jobs exports: a newcomer should be able to read them in
// one sitting. Names for operators and for authors of backends belong in other packages.
const maxExported = 170

func TestExported_PackageJobsStaysSmall(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, file := range parse(t, "../..") {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range s.Names {
							names[name.Name] = true
						}
					}
				}
			}
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return !ast.IsExported(name) })
	t.Logf("package jobs has %d exported names", len(names))
	if !names["Client"] || !names["WithQueue"] || !names["StatePending"] {
		t.Error("Client, WithQueue or StatePending was not counted: the count does not see the source")
	}
	if len(names) > maxExported {
		t.Errorf("package jobs has %d exported names, the limit is %d; move what operators or authors of backends need to their package: %s",
			len(names), maxExported, strings.Join(slices.Sorted(maps.Keys(names)), " "))
	}
}
