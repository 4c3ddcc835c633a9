package jobs

import (
	"path"
	"runtime/debug"
)

// programVersion is what the binary says of itself: its name and version.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	name, version := path.Base(info.Path), info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && (version == "" || version == "(devel)") {
			version = setting.Value[:min(12, len(setting.Value))]
		}
	}
	return name + " " + version
}
