package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionJSON is the output of version.
type versionJSON struct {
	Schema   string `json:"schema"` // hearsay.version/1
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, if the build knows it
	Modified bool   `json:"modified"`           // the source had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print which build this is",
		Example: "  hearsay version\n  hearsay version -o json",
		Args:    args(),
	}
	o := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := versionJSON{Schema: "hearsay.version/1", Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				switch s.Key {
				case "vcs.revision":
					v.Revision = s.Value
				case "vcs.modified":
					v.Modified = s.Value == "true"
				}
			}
		}
		if *o == asJSON {
			return a.emit(v)
		}
		revision := ""
		if v.Revision != "" {
			revision = " " + v.Revision
			if v.Modified {
				revision += " with changes"
			}
		}
		return a.write(fmt.Sprintf("hearsay %s%s (%s, %s)\n", v.Version, revision, v.Go, v.Platform))
	}
	return cmd
}

// version is that of this build, spelled as a worker spells its own.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
