package main

import "runtime/debug"

// version is set by the linker, for images that are built without Git's data.
var version string

// programVersion is what --version prints: the module's version, or the commit
// that the program was built from, and the version of Go.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(version, info)
}

func versionOf(linked string, info *debug.BuildInfo) string {
	v, setting := linked, make(map[string]string)
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	commit := setting["vcs.revision"]
	if setting["vcs.modified"] == "true" {
		commit += ", modified"
	}
	if v == "" {
		v = info.Main.Version
	}
	if v == "" {
		v = "(devel)"
	}
	if commit != "" {
		v += " (" + commit + ")"
	}
	if info.GoVersion != "" {
		v += " " + info.GoVersion
	}
	return v
}
