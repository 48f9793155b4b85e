package hostsuite_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

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
