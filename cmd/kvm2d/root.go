package main

import (
	"errors"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

// The groups of commands that help shows.
const (
	groupDaemon = "daemon"
	groupClient = "client"
)

// newRoot builds the whole command line.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Use:           "kvm2d",
		Short:         "Small virtual machines on remote libvirt hosts, over REST",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddGroup(&cobra.Group{ID: groupDaemon, Title: "The daemon:"}, &cobra.Group{ID: groupClient, Title: "A client of a running daemon:"})
	for _, cmd := range []*cobra.Command{newServe(), newCheckConfig(), newCheckHost(), newConfigSchema()} {
		cmd.GroupID = groupDaemon
		root.AddCommand(cmd)
	}
	root.AddCommand(newList(), newGet(), newCreate(), newDelete(), newConsole(), newHealth(), newImages(), newPull(), newRemoveImage(), newVersion())
	return root
}

// action makes what a command does into what cobra runs: its errors get an exit code.
func action(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*outcome](err); ok {
			return err
		}
		if _, ok := errors.AsType[*config.FaultsError](err); ok {
			return &outcome{code: exitUsage, err: err}
		}
		return &outcome{code: exitFailed, err: err}
	}
}
