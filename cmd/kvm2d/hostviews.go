package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

func newHealth() *cobra.Command {
	return clientCommand(&cobra.Command{
		Use: "health", Short: "Show how the hosts are; exit code 3 when one is not ready", Args: cobra.NoArgs,
	}, func(ctx context.Context, s *session, _ []string) error {
		report, err := s.Check(ctx)
		if err != nil {
			return err
		}
		t := table{head: []string{"HOST", "READY", "REASON", "LIBVIRT", "POOL", "AVAILABLE", "MESSAGE"}}
		for _, h := range report.Hosts {
			var space string
			if a, c := h.Details.PoolAvailableGiB, h.Details.PoolCapacityGiB; a != nil && c != nil {
				space = fmt.Sprintf("%.1f of %.1f GiB", *a, *c)
			}
			t.rows = append(t.rows, []string{
				h.Host, strconv.FormatBool(h.Ready), h.Reason, orNone(h.Details.LibvirtVersion), orNone(h.Details.Pool), space, h.Message,
			})
		}
		if err := s.print(report, t); err != nil {
			return err
		}
		if report.Status != "ok" {
			return &outcome{code: exitNotReady, err: fmt.Errorf("the hosts are %s", report.Status)}
		}
		return nil
	})
}

func newImages() *cobra.Command {
	var host string
	cmd := clientCommand(&cobra.Command{Use: "images", Short: "Show which images are on which host", Args: cobra.NoArgs},
		func(ctx context.Context, s *session, _ []string) error {
			list, err := s.images(ctx, host)
			if err != nil {
				return err
			}
			t := table{head: []string{"IMAGE", "HOST", "IDENTITY", "STATE", "SIZE", "IN USE", "FAILURE"}}
			for _, i := range list.Items {
				t.rows = append(t.rows, []string{
					i.Image, i.Host, i.Identity, imageState(i), mebibytes(i.SizeBytes), decimal(i.Overlays), orNone(i.Failure),
				})
			}
			return s.print(list, t)
		})
	cmd.Flags().StringVar(&host, "host", "", "only this host")
	return cmd
}

func (s *session) images(ctx context.Context, host string) (client.ImageList, error) {
	var list client.ImageList
	err := s.ask(ctx, "list images", &list, func(ctx context.Context, c *client.Client) (*http.Response, error) {
		return c.ListImages(ctx, &client.ListImagesParams{Host: given(host)})
	})
	return list, err
}

// imageState is the state, with how far a download is.
func imageState(i client.Image) string {
	if i.State != "downloading" || i.DoneBytes == nil || i.TotalBytes == nil || *i.TotalBytes <= 0 {
		return string(i.State)
	}
	return fmt.Sprintf("%s %d%%", i.State, *i.DoneBytes*100 / *i.TotalBytes)
}

func mebibytes(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%.1f MiB", float64(*n)/(1<<20))
}

func decimal[T ~int | ~int64 | ~int32](n *T) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

func newPull() *cobra.Command {
	var (
		host   string
		noWait bool
	)
	cmd := clientCommand(&cobra.Command{
		Use: "pull IMAGE", Short: "Have an image downloaded to the hosts, and wait for it", Args: cobra.ExactArgs(1), ValidArgsFunction: completeImages,
	}, func(ctx context.Context, s *session, args []string) error {
		name, err := imageName(args)
		if err != nil {
			return err
		}
		err = s.ask(ctx, "pull "+name, nil, func(ctx context.Context, c *client.Client) (*http.Response, error) {
			return c.PullImage(ctx, name, &client.PullImageParams{Host: given(host)})
		})
		if err != nil || noWait {
			return err
		}
		return s.waitForImage(ctx, name, host)
	})
	cmd.Flags().StringVar(&host, "host", "", "only to this host")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the download has been accepted")
	return cmd
}

func newRemoveImage() *cobra.Command {
	var host, identity string
	cmd := clientCommand(&cobra.Command{
		Use: "remove-image IMAGE", Short: "Remove an image that no disk is built on from the hosts; the next create downloads it again",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeImages,
	}, func(ctx context.Context, s *session, args []string) error {
		name, err := imageName(args)
		if err != nil {
			return err
		}
		return s.ask(ctx, "remove image "+name, nil, func(ctx context.Context, c *client.Client) (*http.Response, error) {
			return c.DeleteImage(ctx, name, &client.DeleteImageParams{Host: given(host), Identity: given(identity)})
		})
	})
	cmd.Flags().StringVar(&host, "host", "", "only from this host")
	cmd.Flags().StringVar(&identity, "identity", "", "an old content of that name, as images shows it; the configured one unless given")
	return cmd
}

// imageName is the first of args, which becomes a path.
func imageName(args []string) (string, error) {
	if name := args[0]; name != "" && !strings.ContainsAny(name, "/.") {
		return name, nil
	}
	return "", &outcome{code: exitUsage, err: fmt.Errorf("%q is no name of an image", args[0])}
}

// waitForImage returns once the image is on every host, or failed on one.
func (s *session) waitForImage(ctx context.Context, name, host string) error {
	stop := s.progress(ctx, "pulling "+name, host)
	defer stop()
	for {
		list, err := s.images(ctx, host)
		if err != nil {
			return err
		}
		var errs []error
		busy := false
		for _, i := range list.Items {
			switch {
			case i.Image != name || i.State == "ready":
			case i.State == "failed":
				errs = append(errs, fmt.Errorf("image %s on %s: %s", name, i.Host, orNone(i.Failure)))
			default:
				busy = true
			}
		}
		if !busy {
			return errors.Join(errs...)
		}
		if !pause(ctx, pollInterval) {
			return context.Cause(ctx)
		}
	}
}
