package main

import (
	"fmt"
	"net/netip"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// simulated returns the configuration of serve --simulate, two hosts with a
// placement each, and the world that it speaks of: hosts in memory, which boot
// a guest in about two seconds, and a server that has their image.
func simulated() (*config.Config, backends) {
	const image = "debian-13"
	cfg := config.Default()
	cfg.ProbeInterval = 5 * time.Second
	cfg.KVM2.Images = map[string]config.Image{image: {URL: "https://mirror.invalid/debian-13.qcow2", Firmware: "uefi"}}
	cfg.KVM2.Sizes = map[string]config.Size{
		"small":  {VCPUs: 1, MemoryMiB: 1024, DiskGiB: 10},
		"medium": {VCPUs: 2, MemoryMiB: 4096, DiskGiB: 20},
	}
	cfg.KVM2.Placements = make(map[string]config.Placement)
	hosts := make(map[string]*sim.Host)
	for i, name := range []string{"sim-1", "sim-2"} {
		cfg.KVM2.Hosts = append(cfg.KVM2.Hosts, config.Host{
			Name: name, URI: "qemu+ssh://sim@" + name + ".invalid/system", InsecureIgnoreHostKey: true,
			Pool: "default", Network: "default", DomainType: "auto",
		})
		cfg.KVM2.Placements[name] = config.Placement{Host: name, Image: image, Size: "small"}
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(i + 1), 0}), 24)
		hosts[name] = sim.NewHost(sim.Options{Name: name, Subnet: subnet})
	}
	return &cfg, backends{
		connector: func(h config.Host) (libvirtx.Connector, error) {
			host, ok := hosts[h.Name]
			if !ok {
				return nil, fmt.Errorf("no simulated host %s", h.Name)
			}
			return host, nil
		},
		downloads: sim.Images{},
	}
}
