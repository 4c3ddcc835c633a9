package main

import (
	"runtime/debug"
	"testing"
)

func TestVersion_TheVersionNamesWhatTheProgramWasBuiltFrom(t *testing.T) {
	t.Parallel()
	info := func(module string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: module}, Settings: settings}
	}
	commit, changed := debug.BuildSetting{Key: "vcs.revision", Value: "0123abcd"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		name, linked string
		info         *debug.BuildInfo
		want         string
	}{
		{"installed as a module", "", info("v1.2.3"), "v1.2.3 go1.26"},
		{"built in a clone", "", info("(devel)", commit), "(devel) (0123abcd) go1.26"},
		{"built in a clone with changes", "", info("v1.2.4-0.2026", commit, changed), "v1.2.4-0.2026 (0123abcd, modified) go1.26"},
		{"built for an image", "v1.2.3-4-gabc", info("(devel)"), "v1.2.3-4-gabc go1.26"},
		{"built without any of it", "", &debug.BuildInfo{}, "(devel)"},
	} {
		if got := buildOf(c.linked, c.info).String(); got != c.want {
			t.Errorf("%s: the version is %q, want %q", c.name, got, c.want)
		}
	}
}
