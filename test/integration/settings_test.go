//go:build integration

// Package integration_test proves the contract on a real libvirt host, which it
// reaches over SSH as kvm2d does. docs/testing.md tells its settings.
package integration_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

const (
	// hostName is what the host under test is called here.
	hostName = "kvm2-test"
	// testOwner and testImage keep the tests apart from all else on the host;
	// one run of them at a time may use a pool.
	testOwner = "kvm2test"
	testImage = "kvm2test"

	defaultTimeout = 10 * time.Minute
)

// settings are what KVM2_TEST_* say.
type settings struct {
	// address is host:port of the SSH server.
	address, user, key, knownHosts string
	bridge, pool, socket           string
	// domainType is auto, kvm or qemu.
	domainType            string
	imageURL, imageSHA256 string
	timeout               time.Duration
	// keep leaves the instance on the host.
	keep     bool
	logLevel string
}

// readSettings skips the test when no host is given, and fails it when one is
// given but not all that goes with it.
func readSettings(t *testing.T) settings {
	t.Helper()
	if os.Getenv("KVM2_TEST_HOST") == "" {
		t.Skip("KVM2_TEST_HOST is not set: see docs/testing.md")
	}
	var missing []string
	required := func(name string) string {
		v := os.Getenv("KVM2_TEST_" + name)
		if v == "" {
			missing = append(missing, "KVM2_TEST_"+name)
		}
		return v
	}
	optional := func(name, otherwise string) string {
		if v := os.Getenv("KVM2_TEST_" + name); v != "" {
			return v
		}
		return otherwise
	}
	s := settings{
		address: required("HOST"), user: required("USER"), key: required("SSH_KEY"), knownHosts: required("KNOWN_HOSTS"),
		bridge: required("BRIDGE"), imageURL: required("IMAGE_URL"), imageSHA256: optional("IMAGE_SHA256", ""),
		pool: optional("POOL", "default"), socket: optional("SOCKET", ""), domainType: optional("DOMAIN_TYPE", "auto"),
		keep: optional("KEEP", "") == "1", logLevel: optional("LOG_LEVEL", ""),
	}
	if missing != nil {
		t.Fatalf("not set: %s", strings.Join(missing, ", "))
	}
	if _, _, err := net.SplitHostPort(s.address); err != nil {
		s.address = net.JoinHostPort(s.address, "22")
	}
	var err error
	if s.timeout, err = time.ParseDuration(optional("TIMEOUT", defaultTimeout.String())); err != nil || s.timeout <= 0 {
		t.Fatal("KVM2_TEST_TIMEOUT is no duration, as 10m is one")
	}
	return s
}

// config is the configuration of a daemon with the one host and image.
func (s settings) config() string {
	uri := url.URL{Scheme: "qemu+ssh", User: url.User(s.user), Host: s.address, Path: "/system"}
	return fmt.Sprintf(`probeInterval: 1h
limits: {createWait: %s}
kvm2:
  owner: %s
  hosts:
    - {name: %s, uri: %q, sshKeyFile: %q, knownHostsFile: %q, bridge: %q, pool: %q, socket: %q, domainType: %q}
  images:
    %s: {url: %q%s}
  sizes:
    small: {vcpus: 1, memoryMiB: 512}
  placements:
    %s: {host: %s, image: %s, size: small}
`, s.timeout, testOwner, hostName, uri.String(), s.key, s.knownHosts, s.bridge, s.pool, s.socket, s.domainType,
		testImage, s.imageURL, s.digest(), hostName, hostName, testImage)
}

// digest is the image's checksum as a configuration has it.
func (s settings) digest() string {
	if s.imageSHA256 == "" {
		return ""
	}
	return ", sha256: " + s.imageSHA256
}

// connector dials the host as the daemon does.
func (s settings) connector(t *testing.T) libvirtx.Connector {
	t.Helper()
	c, err := libvirtx.NewSSHConnector(libvirtx.SSHOptions{
		SSHEndpoint: libvirtx.SSHEndpoint{Addr: s.address, User: s.user, KeyFile: s.key, KnownHostsFile: s.knownHosts},
		Socket:      s.socket,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// holdings is what the host holds.
type holdings struct {
	// domains counts all domains, whosever they are.
	domains int
	// instances and images are the names of the tests' volumes.
	instances, images []string
}

// holds looks at the host over a connection of its own.
func (s settings) holds(t *testing.T) holdings {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	conn, err := s.connector(t).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var h holdings
	domains, err := conn.ConnectGetAllDomainStats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h.domains = len(domains)
	pool, err := conn.StoragePoolLookupByName(ctx, s.pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.StoragePoolRefresh(ctx, pool); err != nil {
		t.Fatal(err)
	}
	volumes, err := conn.StoragePoolListAllVolumes(ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes {
		switch {
		case strings.HasPrefix(v.Name, "kvm2."+testOwner+"."):
			h.instances = append(h.instances, v.Name)
		case strings.HasPrefix(v.Name, "kvm2-base."+testImage+"."):
			h.images = append(h.images, v.Name)
		}
	}
	return h
}
