package sim_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// Whoever defines a name first has it; everybody else is refused.
func TestDefine_isAtomic(t *testing.T) {
	h := sim.NewHost(sim.Options{})
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		c := connect(t, h)
		all.Go(func() {
			for n := range 20 {
				_, err := c.DomainDefineXML(t.Context(), domainXML(fmt.Sprint("vm-", n), uuid.NewString(), "", poolDir+"a", onBridge), 0)
				switch code(err) {
				case 0:
					won.Add(1)
				case int(libvirt.ErrOperationFailed):
					lost.Add(1)
				default:
					t.Errorf("define: %v", err)
				}
			}
		})
	}
	all.Wait()
	if won.Load() != 20 || lost.Load() != 140 {
		t.Errorf("got %d defined and %d refused, want 20 and 140", won.Load(), lost.Load())
	}
}

// FuzzDomainXML: whatever it is given, the host answers; what it accepted it
// can start or refuse, describe, and forget.
func FuzzDomainXML(f *testing.F) {
	f.Add(domainXML("a", uuidA, "efi", poolDir+"a.qcow2", onNetwork+channel))
	f.Add(domainXML("a", uuidA, "", poolDir+"a.qcow2", onBridge+"<serial type='pty'><log file='"+poolDir+"log'/></serial>"))
	f.Add("<domain type='qemu'><name>a</name><memory>1</memory><os><type>hvm</type></os></domain>")
	f.Add("<domain type='qemu'><name>a</name><memory>1</memory><os><type>hvm</type></os><metadata><a:b xmlns:a='x'>t<c/></a:b></metadata>" +
		"<devices><interface type='network'><source/></interface><channel type='unix'/></devices></domain>")
	f.Fuzz(func(t *testing.T, xml string) {
		r := newRig(t, sim.Options{})
		r.volume("a.qcow2", "qcow2", 1<<20, "")
		d, err := r.conn.DomainDefineXML(t.Context(), xml, 0)
		if err != nil {
			if code(err) < 0 {
				t.Fatalf("an error without a number: %v", err)
			}
			return
		}
		if err := r.conn.DomainCreate(t.Context(), d, 0); code(err) < 0 {
			t.Fatalf("start: %v", err)
		}
		doc, err := r.conn.DomainGetXMLDesc(t.Context(), d, libvirt.DomainXMLInactive)
		r.must(err)
		if _, err := r.conn.DomainDefineXML(t.Context(), doc, 0); err != nil {
			t.Fatalf("its own description is refused: %v\n%s", err, doc)
		}
		r.host.Reboot()
	})
}

// FuzzVolumeContent: no content makes looking into it fail.
func FuzzVolumeContent(f *testing.F) {
	f.Add([]byte("QFI\xfb\x00\x00\x00\x03"))
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t, sim.Options{})
		r.host.AddVolume("a", b)
		if info, ok := r.host.Volume("a"); !ok || info.Physical != uint64(len(b)) {
			t.Errorf("got %+v of %d bytes", info, len(b))
		}
	})
}
