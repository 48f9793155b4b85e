// Command ociarchive makes an image of a stage FROM scratch of a Dockerfile, and of
// the folder that this stage copies, without an engine or a registry. It writes an
// archive in the OCI's form, which containerd, podman and skopeo read, with what
// docker load wants besides. The same input gives the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ociarchive:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("ociarchive", flag.ContinueOnError)
	var (
		dockerfile = flags.String("dockerfile", "deploy/Dockerfile", "`file` that describes the image")
		target     = flags.String("target", "", "`name` of the stage")
		root       = flags.String("root", "", "`folder` that the stage copies to /")
		name       = flags.String("name", "", "`name:tag` of the image")
		arch       = flags.String("arch", "amd64", "`architecture` of its programs, as Go names it")
		created    = flags.Int64("created", 0, "`seconds` since 1970 of all its times")
		out        = flags.String("out", "", "`file` to write")
	)
	arguments := map[string]string{}
	flags.Func("arg", "`NAME=VALUE` of a build argument; may be repeated", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("want NAME=VALUE, got %q", s)
		}
		arguments[key] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*dockerfile)
	if err != nil {
		return err
	}
	config, err := parseStage(string(text), *target, arguments)
	if err != nil {
		return fmt.Errorf("%s: %w", *dockerfile, err)
	}
	img := image{
		Name: *name, Config: config, Architecture: *arch, OS: "linux", Created: time.Unix(*created, 0).UTC(),
	}
	return img.write(*root, *out)
}
