package main

import (
	"cmp"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker, for images that are built without Git metadata.
var version string

// build says what a program was built from. Its JSON names are a contract.
type build struct {
	Version  string `json:"version"` // the module's version
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the work tree had uncommitted changes
	Go       string `json:"go,omitempty"`
}

func programBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(version, info)
}

func buildOf(linked string, info *debug.BuildInfo) build {
	setting := make(map[string]string)
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	return build{Version: cmp.Or(linked, info.Main.Version, "(devel)"),
		Commit: setting["vcs.revision"], Modified: setting["vcs.modified"] == "true", Go: info.GoVersion}
}

// String returns the build on one line: versions of the module and of Go, and the
// commit.
func (b build) String() string {
	text, commit := b.Version, b.Commit
	if b.Modified {
		commit += ", modified"
	}
	if commit != "" {
		text += " (" + commit + ")"
	}
	if b.Go != "" {
		text += " " + b.Go
	}
	return text
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := programBuild()
			return a.answer(b, "%s version %s", cmd.Root().Name(), b)
		},
	}
}
