package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace/noop"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func newCheckHost() *cobra.Command {
	return &cobra.Command{
		Use:   "check-host FILE [NAME]",
		Short: "Try out the hosts of a configuration, and say what to do where one fails",
		Long: `Try out every host of a configuration, or the one named: key, host key, libvirt,
pool, bridge or network, firmware and emulator. Nothing is changed on the host.

Exit code 0: all are ready. 2: the configuration has faults. 3: a host is not ready.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			cfg, _, err := config.Load(args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				if cfg.KVM2.Hosts, err = oneHost(cfg.KVM2.Hosts, args[1]); err != nil {
					return err
				}
			}
			return checkHosts(cmd.Context(), cfg, realBackends(), cmd.OutOrStdout())
		}),
	}
}

func oneHost(hosts []config.Host, name string) ([]config.Host, error) {
	i := slices.IndexFunc(hosts, func(h config.Host) bool { return h.Name == name })
	if i < 0 {
		names := make([]string, len(hosts))
		for i, h := range hosts {
			names[i] = h.Name
		}
		err := fmt.Errorf("no host %q in the configuration: known are %s", name, strings.Join(names, ", "))
		return nil, &outcome{code: exitUsage, err: err}
	}
	return hosts[i : i+1], nil
}

// checkHosts tries every host of cfg and prints a paragraph for each.
func checkHosts(ctx context.Context, cfg *config.Config, world backends, out io.Writer) error {
	log := slog.New(slog.DiscardHandler)
	life := &lifecycle{log: log}
	defer func() { _ = life.stop(ctx, 0) }()
	a := &app{
		appOptions: appOptions{Config: cfg, Backends: world, Log: log},
		life:       life, registry: prometheus.NewRegistry(), tracer: noop.NewTracerProvider().Tracer(""),
	}
	hosts, err := a.startHosts(ctx)
	if err != nil {
		return err
	}
	service, err := a.startService(hosts)
	if err != nil {
		return err
	}
	notReady := 0
	for _, entry := range service.Check(ctx).Hosts {
		var also error
		if host, ok := hosts.Host(entry.Host); ok && entry.Ready {
			also = preflight(ctx, host, cfg)
		}
		if !entry.Ready || also != nil {
			notReady++
		}
		printHost(out, entry, also, adviceFor(cfg, entry.Host))
	}
	if notReady > 0 {
		return &outcome{code: exitNotReady, err: fmt.Errorf("%d of %d hosts are not ready", notReady, len(cfg.KVM2.Hosts))}
	}
	return nil
}

// preflight asks the host for each firmware that an image of the configuration needs.
func preflight(ctx context.Context, host instance.Host, cfg *config.Config) error {
	var wanted []string
	for _, img := range cfg.KVM2.Images {
		wanted = append(wanted, img.Firmware)
	}
	if len(wanted) == 0 {
		wanted = []string{string(instance.FirmwareUEFI)}
	}
	slices.Sort(wanted)
	var errs []error
	for _, fw := range slices.Compact(wanted) {
		errs = append(errs, host.Preflight(ctx, instance.Firmware(fw)))
	}
	return errors.Join(errs...)
}

// printHost prints one host's paragraph; also is what the preflight found.
func printHost(out io.Writer, h instance.HostHealth, also error, what func(instance.Reason) string) {
	reason, message := h.Reason, h.Message
	if also != nil {
		reason, message = instance.ReasonOf(also), also.Error()
	}
	if h.Ready && also == nil {
		fmt.Fprintf(out, "%s: ready (%v)\n", h.Host, h.Latency.Round(time.Millisecond))
	} else {
		fmt.Fprintf(out, "%s: not ready: %s: %s\n", h.Host, reason, message)
		fmt.Fprintf(out, "  what to do: %s\n", what(reason))
	}
	for _, line := range known(h.Details) {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// known lists what is known of a host, a line for each kind of thing.
func known(d instance.HostDetails) []string {
	var lines []string
	add := func(have bool, format string, args ...any) {
		if have {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(d.Hostname != "", "hostname %s, UUID %s", d.Hostname, d.HostUUID)
	add(d.LibvirtVersion != "", "libvirt %s", d.LibvirtVersion)
	add(d.DomainType != "", "domain type %s, firmware %s", d.DomainType, strings.Join(d.Firmware, " "))
	if d.PoolCapacityGiB != nil && d.PoolAvailableGiB != nil {
		add(true, "pool %s is %s, %.1f of %.1f GiB available", d.Pool, d.PoolState, *d.PoolAvailableGiB, *d.PoolCapacityGiB)
	}
	if d.MemoryFreeMiB != nil {
		add(true, "%d MiB of memory free", *d.MemoryFreeMiB)
	}
	return lines
}
