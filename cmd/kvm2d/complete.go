package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

// completionLimit bounds what somebody who pressed Tab waits.
const completionLimit = 2 * time.Second

// complete offers what ask finds out; where the server cannot be asked, nothing.
func complete(cmd *cobra.Command, args []string, ask func(context.Context, *session) []string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	f := sessionFlags{output: "name"}
	for name, value := range map[string]*string{"server": &f.server, "token-file": &f.tokenFile, "ca-file": &f.caFile} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			*value = flag.Value.String()
		}
	}
	s, err := f.open(cmd)
	if err != nil {
		return nil, none
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	return ask(ctx, s), none
}

func completeIDs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, args, func(ctx context.Context, s *session) []string {
		list, err := s.ListByTag(ctx, nil)
		return names(list, err, func(i client.Instance) string { return i.ID })
	})
}

func completeImages(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, args, func(ctx context.Context, s *session) []string {
		list, err := s.images(ctx, "")
		return names(list.Items, err, func(i client.Image) string { return i.Image })
	})
}

func completePlacements(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, nil, func(ctx context.Context, s *session) []string {
		var list client.PlacementList
		err := s.ask(ctx, "list placements", &list, func(ctx context.Context, c *client.Client) (*http.Response, error) { return c.ListPlacements(ctx) })
		return names(list.Items, err, func(p client.Placement) string { return p.Name })
	})
}

// names are in order, each once: an image is in the list for every host.
func names[T any](items []T, err error, name func(T) string) []string {
	if err != nil {
		return nil
	}
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = name(item)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
