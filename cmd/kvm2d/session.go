package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

// Exit codes of the client's commands, by the kind of the error.
const (
	exitNotFound      = 4
	exitPermanent     = 5
	exitTransient     = 6
	exitQuotaExceeded = 7
)

// exitKinds tells what a kind becomes.
var exitKinds = []struct {
	kind error
	code int
}{
	{client.ErrNotFound, exitNotFound},
	{client.ErrPermanent, exitPermanent},
	{client.ErrTransient, exitTransient},
	{client.ErrQuotaExceeded, exitQuotaExceeded},
}

// session is one client command on its way: whom it talks to, and where its
// output goes.
type session struct {
	*client.Provider
	out, err io.Writer
	format   string
}

// sessionFlags say which installation to talk to and how.
type sessionFlags struct {
	server    string
	tokenFile string
	caFile    string
	output    string
	timeout   time.Duration
}

// clientCommand makes a command of the client. It adds the flags that all of
// them have, and gives run a session and a context with the time limit.
func clientCommand(cmd *cobra.Command, run func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	f := &sessionFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", envOr("KVM2D_SERVER", "http://127.0.0.1:8080"), "`URL` of the installation; $KVM2D_SERVER")
	flags.StringVar(&f.tokenFile, "token-file", os.Getenv("KVM2D_TOKEN_FILE"), "`file` with the bearer token; $KVM2D_TOKEN_FILE")
	flags.StringVar(&f.caFile, "ca-file", os.Getenv("KVM2D_CA_FILE"), "`file` with the certificate authority of an https server; $KVM2D_CA_FILE")
	flags.StringVarP(&f.output, "output", "o", "table", "table, json, yaml or name")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Minute, "give up after so long")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
	cmd.GroupID = groupClient
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		s, err := f.open(cmd)
		if err != nil {
			return err
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
		defer cancel()
		return byKind(run(ctx, s, args))
	})
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	return cmd
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// open makes the session of one command; it does no network I/O.
func (f *sessionFlags) open(cmd *cobra.Command) (*session, error) {
	if err := checkOutput(f.output); err != nil {
		return nil, &outcome{code: exitUsage, err: err}
	}
	options := client.Options{Name: "server", Server: f.server, TokenFile: f.tokenFile, UserAgent: "kvm2d/" + readBuild().Version}
	if f.caFile != "" {
		pem, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificate authority: %s holds no certificate", f.caFile)
		}
		options.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	p, err := client.NewProvider(options)
	if err != nil {
		return nil, &outcome{code: exitUsage, err: err}
	}
	return &session{Provider: p, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(), format: f.output}, nil
}

// ask makes a call of the generated client and reads its answer into into.
func (s *session) ask(ctx context.Context, op string, into any, send func(context.Context, *client.Client) (*http.Response, error)) error {
	res, err := send(ctx, s.API())      //nolint:bodyclose // Answer reads the body to its end and closes it
	return s.Answer(op, res, err, into) //nolint:contextcheck // the answer carries the context of its request
}

// byKind gives an error of the client its exit code.
func byKind(err error) error {
	for _, k := range exitKinds {
		if errors.Is(err, k.kind) {
			return &outcome{code: k.code, err: err}
		}
	}
	return err
}
