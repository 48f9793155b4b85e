package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "config-schema",
		Short: "Write the JSON Schema of the configuration file, for editors",
		Long: `Write the JSON Schema of the configuration file, with which an editor completes
keys, explains them and marks mistakes while one types:

  kvm2d config-schema >kvm2d.schema.json

and, for editors that know the YAML language server, as the file's first line:

  # yaml-language-server: $schema=kvm2d.schema.json

check-config finds more: it also compares keys and looks at the files they name.`,
		Args: cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			schema, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", schema)
			return err
		}),
	}
}
