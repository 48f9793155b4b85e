package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

func newCheckConfig() *cobra.Command {
	return &cobra.Command{
		Use:   "check-config FILE",
		Short: "Check a configuration file, and the files that it names, without starting",
		Long: `Check a configuration file, and the files that it names, without starting.

Every fault is shown, with its key path and line. Keys, tokens, certificates and
known_hosts files that are missing or of no use are errors here, while serve
starts without them. No host is dialled; check-host does that.

Exit code 0: fine, perhaps with warnings. 2: faults.`,
		Args: cobra.ExactArgs(1),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return checkConfig(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0])
		}),
	}
}

func checkConfig(stdout, stderr io.Writer, file string) error {
	cfg, warnings, err := config.Load(file)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	if faults := cfg.CheckFiles(fileChecks); len(faults) > 0 {
		return &config.FaultsError{File: file, Faults: faults}
	}
	fmt.Fprintf(stdout, "%s: fine: %d hosts, %d images, %d sizes, %d placements\n",
		file, len(cfg.KVM2.Hosts), len(cfg.KVM2.Images), len(cfg.KVM2.Sizes), len(cfg.KVM2.Placements))
	return nil
}
