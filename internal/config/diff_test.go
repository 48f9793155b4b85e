package config

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		// live and restart are the paths that differ.
		live, restart []string
	}{
		{"nothing", func(*Config) {}, nil, nil},
		{"a host's key", func(c *Config) { c.KVM2.Hosts[0].Maintenance = false }, []string{"kvm2.hosts.beelink"}, nil},
		{"a key inside a jump", func(c *Config) {
			j := *c.KVM2.Hosts[0].Jump
			j.URI = "ssh://other@gate.example.net"
			c.KVM2.Hosts[0].Jump = &j
		}, []string{"kvm2.hosts.beelink"}, nil},
		{"one host more", func(c *Config) { c.KVM2.Hosts = append(c.KVM2.Hosts, Host{Name: "new"}) }, []string{"kvm2.hosts.new"}, nil},
		{"one host less", func(c *Config) { c.KVM2.Hosts = c.KVM2.Hosts[:1] }, []string{"kvm2.hosts.here"}, nil},
		{"another order", func(c *Config) { slices.Reverse(c.KVM2.Hosts) }, []string{"kvm2.hosts"}, nil},
		{"names that come, go and change", func(c *Config) {
			c.KVM2.Sizes = map[string]Size{"small": {VCPUs: 2, MemoryMiB: 1024, DiskGiB: 10}, "new": {VCPUs: 1, MemoryMiB: 64}}
			c.KVM2.Images["debian-13"] = Image{URL: "https://x/y"}
			c.KVM2.Placements = nil
		}, []string{"kvm2.images.debian-13", "kvm2.placements.beelink", "kvm2.sizes.as-image", "kvm2.sizes.new", "kvm2.sizes.small"}, nil},
		{"what needs a restart", func(c *Config) {
			c.Server.Listen = ":1"
			c.Server.Auth.Token = &TokenAuth{File: "/other"}
			c.Server.Auth.ClientCert = nil
			c.Timeouts.Dial = time.Minute
			c.KVM2.Owner = "b"
		}, nil, []string{"server.listen", "server.auth.token.file", "server.auth.clientCert", "timeouts.dial", "kvm2.owner"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := loadFull(t), loadFull(t)
			tt.change(b)
			var live, restart []string
			for _, path := range Diff(a, b) {
				if Live(path) {
					live = append(live, path)
				} else {
					restart = append(restart, path)
				}
			}
			slices.Sort(live)
			if diff := cmp.Diff(tt.live, live); diff != "" {
				t.Errorf("live (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.restart, restart); diff != "" {
				t.Errorf("restart (-want +got):\n%s", diff)
			}
		})
	}
}

func loadFull(t *testing.T) *Config {
	t.Helper()
	cfg, _, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
