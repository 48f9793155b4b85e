//go:build integration

package hostsuite_test

import (
	"cmp"
	"os"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim/hostsuite"
)

// TestRealHost runs the suite on a real host, over SSH:
//
//	KVM2_TEST_HOST         host:port; without it the test is left out
//	KVM2_TEST_USER         who logs in
//	KVM2_TEST_SSH_KEY      with this key file
//	KVM2_TEST_KNOWN_HOSTS  the file that vouches for the host
//	KVM2_TEST_POOL         a directory pool (default)
//	KVM2_TEST_SMALL_POOL   an empty pool of under 100 MiB; without it its tests are left out
//	KVM2_TEST_NETWORK      an active network (default)
//	KVM2_TEST_BRIDGE       a bridge (br0)
//	KVM2_TEST_DOMAIN_TYPE  what guests run as (qemu)
func TestRealHost(t *testing.T) {
	addr := os.Getenv("KVM2_TEST_HOST")
	if addr == "" {
		t.Skip("KVM2_TEST_HOST is not set")
	}
	connector, err := libvirtx.NewSSHConnector(libvirtx.SSHOptions{SSHEndpoint: libvirtx.SSHEndpoint{
		Addr: addr, User: os.Getenv("KVM2_TEST_USER"),
		KeyFile: os.Getenv("KVM2_TEST_SSH_KEY"), KnownHostsFile: os.Getenv("KVM2_TEST_KNOWN_HOSTS"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	hostsuite.Run(t, hostsuite.Target{
		Connector:  connector,
		Pool:       cmp.Or(os.Getenv("KVM2_TEST_POOL"), "default"),
		SmallPool:  os.Getenv("KVM2_TEST_SMALL_POOL"),
		Network:    cmp.Or(os.Getenv("KVM2_TEST_NETWORK"), "default"),
		Bridge:     cmp.Or(os.Getenv("KVM2_TEST_BRIDGE"), "br0"),
		DomainType: os.Getenv("KVM2_TEST_DOMAIN_TYPE"),
		Prefix:     "hostsuite-",
	})
}
