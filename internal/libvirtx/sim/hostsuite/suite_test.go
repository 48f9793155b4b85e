package hostsuite_test

import (
	"cmp"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim/hostsuite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSimulator(t *testing.T) {
	h := sim.NewHost(sim.Options{BootDelay: time.Hour})
	h.AddPool("small", "/srv/small", 64<<20)
	hostsuite.Run(t, hostsuite.Target{
		Connector: h, Pool: "default", SmallPool: "small", Network: "default", Bridge: "br0", Prefix: "suite-",
	})
}

// TestRealHost runs the suite on the libvirt behind a local socket:
//
//	KVM2D_HOSTSUITE_SOCKET       the socket's path; without it the test is left out
//	KVM2D_HOSTSUITE_POOL         a directory pool (default)
//	KVM2D_HOSTSUITE_SMALL_POOL   an empty pool of under 100 MiB; without it its tests are left out
//	KVM2D_HOSTSUITE_NETWORK      an active network (default)
//	KVM2D_HOSTSUITE_BRIDGE       a bridge (br0)
func TestRealHost(t *testing.T) {
	socket := os.Getenv("KVM2D_HOSTSUITE_SOCKET")
	if socket == "" {
		t.Skip("KVM2D_HOSTSUITE_SOCKET is not set")
	}
	hostsuite.Run(t, hostsuite.Target{
		Connector: libvirtx.NewLocalConnector(libvirtx.LocalOptions{Socket: socket}),
		Pool:      cmp.Or(os.Getenv("KVM2D_HOSTSUITE_POOL"), "default"),
		SmallPool: os.Getenv("KVM2D_HOSTSUITE_SMALL_POOL"),
		Network:   cmp.Or(os.Getenv("KVM2D_HOSTSUITE_NETWORK"), "default"),
		Bridge:    cmp.Or(os.Getenv("KVM2D_HOSTSUITE_BRIDGE"), "br0"),
		Prefix:    "hostsuite-",
	})
}
