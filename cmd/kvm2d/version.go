package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

// build says what this binary was made from.
type build struct {
	// Version is the module's version, or "devel" outside a release.
	Version  string
	Revision string
	// Modified is true when the working tree differed from Revision.
	Modified bool
	// Time is the revision's, RFC 3339.
	Time string
	Go   string
}

// version and revision are set by the linker (-X main.version=…) in images, which
// are built without the history that the toolchain would ask.
var version, revision string

// readBuild asks the linker, and else the build information that the Go toolchain
// puts into every binary.
func readBuild() build {
	b := build{Version: cmp.Or(version, "devel"), Revision: revision, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; version == "" && v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show what this binary was built from",
		Args:  cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			b := readBuild()
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "kvm2d %s %s %s/%s\n", b.Version, b.Go, runtime.GOOS, runtime.GOARCH)
			if b.Revision != "" {
				of := map[bool]string{true: " of " + b.Time}[b.Time != ""]
				fmt.Fprintf(out, "revision %s%s%s\n", b.Revision, of, map[bool]string{true: ", modified"}[b.Modified])
			}
			return nil
		}),
	}
}

// buildMetric is the usual constant gauge whose labels tell the build.
func buildMetric(b build) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "kvm2d_build_info",
		Help:        "Always 1; the labels tell what this binary was built from.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	}, func() float64 { return 1 })
}
