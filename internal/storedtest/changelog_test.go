package storedtest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A change of a stored form needs a line in CHANGELOG.md: renewing a golden file changes its checksum there.
func TestStored_TheChangelogHasTheFormsAsTheyAre(t *testing.T) {
	t.Parallel()
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, file := range map[string]string{
		"Redis": "../../backends/redisbroker/" + Dir + "/current.golden", "Postgres": "../../backends/pgbroker/" + Dir + "/current.golden",
		"file": "../../backends/filebroker/" + Dir + "/current.golden", "exports": Dir + "/current-export.golden",
		"schedules, workflows, markers, history": Dir + "/current-form.golden",
	} {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		row := fmt.Sprintf("| %s | `%.4x` |", what, sha256.Sum256(text))
		if !strings.Contains(string(changelog), row) {
			t.Errorf("the golden file of a stored form, %s, has changed. Say in CHANGELOG.md what has, and what becomes of stores that have "+
				"the old form; the row there has to begin with\n%s", strings.TrimPrefix(file, "../../"), row)
		}
	}
}
