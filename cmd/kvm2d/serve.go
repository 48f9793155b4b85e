package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

// serveFlags are the arguments of serve.
type serveFlags struct {
	config         string
	simulate       bool
	listen         string
	adminListen    string
	insecureNoAuth bool
	logFormat      string
	logLevel       string
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve (--config FILE | --simulate)",
		Short: "Run the daemon",
		Long: `Run the daemon until SIGTERM or SIGINT.

With --simulate the hosts are in memory: the API behaves as with real ones, and
nothing is ever booted. Traces are exported over OTLP/HTTP when
OTEL_EXPORTER_OTLP_ENDPOINT is set.

No host is dialled before the first request or probe. On SIGTERM readyz turns
false, requests in progress are finished within timeouts.drain, and what is left
is cancelled; a create that was cut off goes on when it is repeated. A second
signal ends the process at once.

On SIGHUP, and when the configuration file changes, hosts, images, sizes and
placements are taken over from it; hosts that did not change keep their
connections. A file with faults, or without a host that there was, changes
nothing. Everything else in the file needs a restart.`,
		Args: cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), f, cmd.ErrOrStderr())
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the configuration `file`")
	flags.BoolVar(&f.simulate, "simulate", false, "two simulated hosts instead of a configuration")
	flags.StringVar(&f.listen, "listen", "", "`address` of the API, instead of the configured one; port 0 is any free one")
	flags.StringVar(&f.adminListen, "admin-listen", "", "`address` of livez, readyz and metrics, instead of the configured one")
	flags.BoolVar(&f.insecureNoAuth, "insecure-no-auth", false, "let everybody in on an address that is not loopback")
	flags.StringVar(&f.logFormat, "log-format", "json", "json or text")
	flags.StringVar(&f.logLevel, "log-level", "info", "detail, debug, info, warn or error; changed at run time with PUT /loglevel on the admin listener")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// override puts the addresses of f in place of the configured ones.
func (f serveFlags) override(server *config.Server) error {
	for _, l := range []struct {
		flag, address string
		configured    *string
	}{
		{"listen", f.listen, &server.Listen},
		{"admin-listen", f.adminListen, &server.AdminListen},
	} {
		if l.address == "" {
			continue
		}
		if !config.ValidListen(l.address) {
			return &outcome{code: exitUsage, err: fmt.Errorf("--%s %s: %s", l.flag, l.address, config.ListenRule)}
		}
		*l.configured = l.address
	}
	return nil
}

// serve loads what f names and runs it; log lines go to w.
func serve(ctx context.Context, f serveFlags, w io.Writer) error {
	if (f.config != "") == f.simulate {
		return &outcome{code: exitUsage, err: errors.New("serve needs --config FILE or --simulate, and not both")}
	}
	// Never given back: a hangup must not end the daemon, whatever it is at.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	log, level, err := newLogger(w, f.logFormat, f.logLevel)
	if err != nil {
		return &outcome{code: exitUsage, err: err}
	}
	opts := appOptions{Log: log, Level: level, InsecureNoAuth: f.insecureNoAuth}
	if f.simulate {
		opts.Config, opts.Backends = simulated()
	} else if err := loadInto(ctx, &opts, f.config); err != nil {
		return err
	}
	if err := f.override(&opts.Config.Server); err != nil {
		return err
	}
	clean, err := stage(log)
	if err != nil {
		return err
	}
	defer clean()
	opts.File.hangups = hangups
	return run(ctx, opts)
}

// loadInto reads the configuration file, and says what an operator should know of it.
func loadInto(ctx context.Context, opts *appOptions, path string) error {
	content, err := config.Read(path)
	if err != nil {
		return err
	}
	cfg, warnings, err := config.Parse(path, content)
	if err != nil {
		return err
	}
	logWarnings(ctx, opts.Log.With("file", path), append(warnings, cfg.CheckFiles(fileChecks)...))
	opts.Backends = realBackends()
	opts.File = configFile{path: path, content: content, loaded: *cfg, every: lookEvery}
	opts.Config = cfg
	return nil
}
