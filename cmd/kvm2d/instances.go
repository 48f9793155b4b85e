package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

func newGet() *cobra.Command {
	return clientCommand(&cobra.Command{
		Use: "get ID", Short: "Show an instance", Args: cobra.ExactArgs(1), ValidArgsFunction: completeIDs,
	}, func(ctx context.Context, s *session, args []string) error {
		in, err := s.Get(ctx, args[0])
		if err != nil {
			return err
		}
		return s.print(in, instanceTable([]client.Instance{in}))
	})
}

func newList() *cobra.Command {
	var (
		tags                   []string
		host, placement, state string
		partial                bool
	)
	cmd := clientCommand(&cobra.Command{Use: "list", Short: "List instances", Args: cobra.NoArgs},
		func(ctx context.Context, s *session, _ []string) error {
			params := &client.ListInstancesParams{Host: given(host), Placement: given(placement), State: (*client.InstanceState)(given(state))}
			if len(tags) > 0 {
				params.Tag = &tags
			}
			if partial {
				params.Partial = &partial
			}
			var list client.InstanceList
			err := s.ask(ctx, "list instances", &list, func(ctx context.Context, c *client.Client) (*http.Response, error) {
				return c.ListInstances(ctx, params)
			})
			if err != nil {
				return err
			}
			for _, u := range list.Unreachable {
				fmt.Fprintf(s.err, "not in the list: host %s: %s\n", u.Host, u.Reason)
			}
			return s.print(list, instanceTable(list.Items))
		})
	flags := cmd.Flags()
	flags.StringArrayVar(&tags, "tag", nil, "only those with the tag `KEY=VALUE`; may be repeated")
	flags.StringVar(&host, "host", "", "only those on this host")
	flags.StringVar(&placement, "placement", "", "only those of this placement")
	flags.StringVar(&state, "state", "", "only Provisioning, Running or Stopped")
	flags.BoolVar(&partial, "partial", false, "show what can be reached when a host cannot")
	return cmd
}

func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func instanceTable(items []client.Instance) table {
	t := table{head: []string{"ID", "STATE", "IP", "PLACEMENT", "SIZE", "AGE", "STATE REASON"}}
	for _, in := range items {
		var age string
		if in.CreatedAt != nil {
			age = time.Since(*in.CreatedAt).Truncate(time.Second).String()
		}
		t.rows = append(t.rows, []string{in.ID, string(in.State), orNone(in.IP), in.Placement, in.Size, age, orNone(in.StateReason)})
	}
	return t
}

func orNone(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func newCreate() *cobra.Command {
	var (
		r         client.CreateRequest
		cloudInit string
		tags      map[string]string
	)
	cmd := clientCommand(&cobra.Command{
		Use: "create NAME --placement PLACEMENT", Short: "Create an instance, and wait until it is started", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		r.Name, r.Tags = args[0], tags
		if cloudInit != "" {
			data, err := readInput(cloudInit)
			if err != nil {
				return fmt.Errorf("user data: %w", err)
			}
			r.UserData = data
		}
		in, err := s.createAndWait(ctx, r)
		if err != nil {
			return err
		}
		return s.print(in, instanceTable([]client.Instance{in}))
	})
	flags := cmd.Flags()
	flags.StringVar(&r.Placement, "placement", "", "`name` of the placement")
	flags.StringVar(&r.Image, "image", "", "`name` of an image, instead of the placement's")
	flags.StringVar(&r.Size, "size", "", "`name` of a size, instead of the placement's")
	flags.StringVar(&r.UID, "uid", "", "the caller's own id of the instance")
	flags.StringToStringVar(&tags, "tag", nil, "`KEY=VALUE`; may be repeated")
	flags.StringVar(&cloudInit, "cloud-init", "", "`file` with cloud-init user data; - is the standard input")
	flags.BoolVar(&r.NoAutostart, "no-autostart", false, "leave it off after its host rebooted")
	_ = cmd.MarkFlagRequired("placement")
	_ = cmd.RegisterFlagCompletionFunc("placement", completePlacements)
	return cmd
}

// createAndWait creates, and joins its own create for as long as it goes on.
func (s *session) createAndWait(ctx context.Context, r client.CreateRequest) (client.Instance, error) {
	stop := s.progress(ctx, "creating "+r.Name, "")
	defer stop()
	for {
		in, err := s.Create(ctx, r)
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Reason != "CreateInProgress" {
			return in, err
		}
		if !pause(ctx, max(e.RetryAfter, time.Second)) {
			return in, err
		}
	}
}

// pause waits; false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func readInput(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(file)
}

func newDelete() *cobra.Command {
	var uid string
	cmd := clientCommand(&cobra.Command{
		Use: "delete ID", Short: "Delete an instance, and wait until nothing of it is left", Args: cobra.ExactArgs(1), ValidArgsFunction: completeIDs,
	}, func(ctx context.Context, s *session, args []string) error {
		return s.Delete(ctx, args[0], uid)
	})
	cmd.Flags().StringVar(&uid, "uid", "", "leave it alone when its uid is another")
	return cmd
}

func newConsole() *cobra.Command {
	var bytes int64
	cmd := clientCommand(&cobra.Command{
		Use: "console ID", Short: "Show the end of an instance's serial console", Args: cobra.ExactArgs(1), ValidArgsFunction: completeIDs,
	}, func(ctx context.Context, s *session, args []string) error {
		if !client.ValidID(args[0]) {
			return &outcome{code: exitPermanent, err: fmt.Errorf("%q is no id: want hosts/<host>/domains/<name>", args[0])}
		}
		var text []byte
		err := s.ask(ctx, "read console of "+args[0], &text, func(ctx context.Context, c *client.Client) (*http.Response, error) {
			return c.GetConsole(ctx, args[0], &client.GetConsoleParams{Bytes: &bytes})
		})
		if err != nil {
			return err
		}
		if terminal(s.out) {
			text = []byte(printable(strings.ReplaceAll(string(text), "\r\n", "\n")))
		}
		_, err = s.out.Write(text)
		return err
	})
	cmd.Flags().Int64Var(&bytes, "bytes", 64<<10, "how much of its end")
	return cmd
}
