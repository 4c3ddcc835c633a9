package deploy

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

// buildImage runs the build command of the Dockerfile without Docker, and returns the
// output directory.
func buildImage(t *testing.T, version string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^ARG VERSION=devel\nRUN mkdir -p /out/images && \\\n((?:.*\\\n)*.*)$`).FindStringSubmatch(file(t,
		"Dockerfile"))
	if m == nil {
		t.Fatal("the Dockerfile has no build command where it is expected")
	}
	out := t.TempDir()
	cmd := exec.Command("/bin/sh", "-ec", strings.ReplaceAll(m[1], "/out/", out+"/"))
	cmd.Dir, cmd.Env = "..", append(cmd.Environ(), "VERSION="+version)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the build command of the Dockerfile: %v\n%s", err, text)
	}
	return out
}

// Programs of the images are static and report their version. Images have no dynamic
// linker, no Go and no home directory.
func TestDeploy_ProgramsOfTheImagesRunAlone(t *testing.T) {
	t.Parallel()
	const version = "v1.2.3-4-gabcdef"
	out := buildImage(t, version)
	dockerfile := file(t, "Dockerfile")
	for _, name := range []string{"worker", "jobsctl"} {
		if !regexp.MustCompile(`(?m)^FROM program AS ` + name + `\nCOPY --from=build /out/` + name + ` /` + name + `\n(?:.*\n)*?ENTRYPOINT \["/` +
			name + `"\]$`).MatchString(dockerfile) {
			t.Errorf("the Dockerfile has no target %s that runs /%s", name, name)
		}
		program, err := elf.Open(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 || program.Section(".interp") != nil {
			t.Errorf("%s is not static: it needs %v (error %v)", name, libraries, err)
		}
		program.Close()
	}
	runs := func(code int, want string, env []string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(out, "jobsctl"), args...)
		cmd.Env, cmd.Dir = env, t.TempDir()
		text, _ := cmd.CombinedOutput() // the exit code is checked below
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(text), want) {
			t.Errorf("jobsctl %q exits with %d and says %q; want %d and %q", args, got, text, code, want)
		}
	}
	here := []string{"JOBS_BROKER=" + testenv.RedisPlace(t)}
	runs(0, "jobsctl version "+version, nil, "--version")
	runs(2, "JOBS_BROKER", nil, "stats")
	runs(0, "pending", here, "enqueue", "--type", "email:send")
	runs(0, "default  1", here, "stats")
}
