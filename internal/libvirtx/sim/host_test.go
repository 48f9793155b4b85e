package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// rig is a host with one connection, and shorthands that fail the test.
type rig struct {
	t    *testing.T
	host *sim.Host
	conn libvirtx.Conn
	pool libvirt.StoragePool
}

func newRig(t *testing.T, o sim.Options) *rig {
	t.Helper()
	h := sim.NewHost(o)
	r := &rig{t: t, host: h, conn: connect(t, h)}
	pool, err := r.conn.StoragePoolLookupByName(t.Context(), "default")
	r.must(err)
	r.pool = pool
	return r
}

func connect(t *testing.T, h *sim.Host) libvirtx.Conn {
	t.Helper()
	c, err := h.Connect(t.Context())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("unexpected error: %v", err)
	}
}

// code is libvirt's number in err: 0 for success, -1 for anything else.
func code(err error) int {
	var e libvirt.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return int(e.Code)
	default:
		return -1
	}
}

// wantCode fails the test unless err is that number of libvirt's (0: success).
func wantCode(t *testing.T, what string, err error, want libvirt.ErrorNumber) {
	t.Helper()
	if got := code(err); got != int(want) {
		t.Errorf("%s: got code %d (%v), want %d", what, got, err, want)
	}
}

func (r *rig) volume(name, format string, bytes uint64, extra string) libvirt.StorageVol {
	r.t.Helper()
	v, err := r.conn.StorageVolCreateXML(r.t.Context(), r.pool, volumeXML(name, format, bytes, extra), 0)
	r.must(err)
	return v
}

func volumeXML(name, format string, bytes uint64, extra string) string {
	return fmt.Sprintf("<volume><name>%s</name><capacity unit='bytes'>%d</capacity><target><format type='%s'/></target>%s</volume>",
		name, bytes, format, extra)
}

const (
	poolDir   = "/var/lib/libvirt/images/"
	uuidA     = "11111111-1111-4111-8111-111111111111"
	uuidB     = "22222222-2222-4222-8222-222222222222"
	macA      = "52:54:00:aa:bb:01"
	onBridge  = "<interface type='bridge'><mac address='" + macA + "'/><source bridge='br0'/><model type='virtio'/></interface>"
	onNetwork = "<interface type='network'><mac address='" + macA + "'/><source network='default'/><model type='virtio'/></interface>"
	channel   = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
	mark      = `<metadata><k2:inst xmlns:k2="urn:x" id="t1"><k2:owner>me</k2:owner></k2:inst></metadata>`
)

// domainXML is a domain with one disk in the pool and what devices adds.
func domainXML(name, uuid, firmware, disk, devices string) string {
	os := "<os>"
	if firmware != "" {
		os = "<os firmware='" + firmware + "'>"
	}
	return fmt.Sprintf(`<domain type='qemu'><name>%s</name><uuid>%s</uuid>%s<memory unit='MiB'>256</memory><vcpu>1</vcpu>
%s<type arch='x86_64' machine='q35'>hvm</type></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>
%s</devices></domain>`, name, uuid, mark, os, disk, devices)
}

func (r *rig) define(xml string) libvirt.Domain {
	r.t.Helper()
	d, err := r.conn.DomainDefineXML(r.t.Context(), xml, 0)
	r.must(err)
	return d
}

// running defines and starts a domain "a" with its own disk.
func (r *rig) running(firmware, devices string) libvirt.Domain {
	r.t.Helper()
	r.volume("a.qcow2", "qcow2", 1<<30, "")
	d := r.define(domainXML("a", uuidA, firmware, poolDir+"a.qcow2", devices))
	r.must(r.conn.DomainCreate(r.t.Context(), d, 0))
	return d
}

func TestConnect_stateIsShared(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.define(domainXML("a", uuidA, "", poolDir+"a", ""))
	other := connect(t, r.host)
	if _, err := other.DomainLookupByName(t.Context(), "a"); err != nil {
		t.Errorf("lookup on another connection: %v", err)
	}
	if got, want := r.host.OpenConns(), 2; got != want {
		t.Errorf("open connections: got %d, want %d", got, want)
	}
}

func TestConn_closedAnswersAsGoLibvirt(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.must(r.conn.Close())
	select {
	case <-r.conn.Done():
	default:
		t.Error("Done is open after Close")
	}
	if _, err := r.conn.ConnectGetLibVersion(t.Context()); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("call on a closed connection: got %v, want EINVAL", err)
	}
	r.must(r.conn.Close())
}

func TestHost_dropEndsConnectionsAndKeepsGuests(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.running("", onBridge)
	r.host.Drop()
	<-r.conn.Done()
	if got := r.host.OpenConns(); got != 0 {
		t.Errorf("open connections after Drop: got %d", got)
	}
	d, _ := r.host.Domain("a")
	if !d.Running {
		t.Error("the guest went with the connection")
	}
}

func TestHost_downRefusesConnects(t *testing.T) {
	h, refused := sim.NewHost(sim.Options{}), errors.New("refused")
	h.Down(refused)
	if _, err := h.Connect(t.Context()); !errors.Is(err, refused) {
		t.Errorf("connect while down: got %v, want %v", err, refused)
	}
	h.Up()
	connect(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Connect(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("connect with a cancelled context: got %v", err)
	}
}

func TestHost_stalledConnectHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sim.NewHost(sim.Options{})
		release := h.Stall("Connect")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Connect(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stalled connect: got %v, want deadline exceeded", err)
		}
		release()
		release()
		connect(t, h)
	})
}

func TestHost_rebootStartsAutostartOnly(t *testing.T) {
	r := newRig(t, sim.Options{})
	d := r.running("", onBridge)
	r.must(r.conn.DomainSetAutostart(t.Context(), d, true))
	r.volume("b.qcow2", "qcow2", 1<<20, "")
	r.must(r.host.AddForeignDomain(domainXML("b", uuidB, "", poolDir+"b.qcow2", ""), true))
	r.host.Reboot()
	var got []string
	for _, d := range r.host.Domains() {
		got = append(got, fmt.Sprint(d.Name, d.Running))
	}
	if diff := cmp.Diff([]string{"atrue", "bfalse"}, got); diff != "" {
		t.Errorf("domains after the reboot (-want +got):\n%s", diff)
	}
}

func TestHost_facts(t *testing.T) {
	r := newRig(t, sim.Options{Name: "h1", LibVersion: 8000000, MemoryBytes: 1 << 30})
	ctx := t.Context()
	version, err := r.conn.ConnectGetLibVersion(ctx)
	r.must(err)
	name, err := r.conn.ConnectGetHostname(ctx)
	r.must(err)
	if version != 8000000 || name != "h1" {
		t.Errorf("got version %d of %q", version, name)
	}
	r.running("", onBridge)
	free, err := r.conn.NodeGetFreeMemory(ctx)
	r.must(err)
	if want := uint64(1<<30 - 256<<20); free != want {
		t.Errorf("free memory: got %d, want %d", free, want)
	}
}

func TestHost_sameNameHasSameIdentity(t *testing.T) {
	capabilities := func(name string) string {
		doc, err := connect(t, sim.NewHost(sim.Options{Name: name})).ConnectGetCapabilities(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	first, again := capabilities("x"), capabilities("x")
	if first != again {
		t.Error("the same name gave two host UUIDs")
	}
	if first == capabilities("y") {
		t.Error("two names gave one host UUID")
	}
}

func TestDomainCapabilities(t *testing.T) {
	rows := []struct {
		name, emulator, arch, machine, virt string
		opts                                sim.Options
		want                                libvirt.ErrorNumber
		has, lacks                          string
	}{
		{name: "default is kvm", has: "<domain>kvm</domain>"},
		{name: "default without kvm", opts: sim.Options{NoKVM: true}, has: "<domain>qemu</domain>"},
		{name: "firmware", virt: "qemu", machine: "q35", has: "<value>efi</value>"},
		{name: "no firmware", opts: sim.Options{NoFirmware: true}, lacks: "<value>efi</value>", has: "<enum name='firmware'/>"},
		{name: "unknown type", virt: "foo", want: libvirt.ErrInvalidArg},
		{name: "kvm where there is none", virt: "kvm", opts: sim.Options{NoKVM: true}, want: libvirt.ErrInvalidArg},
		{name: "unknown emulator", emulator: "/nope", want: libvirt.ErrSystemError},
		{name: "unknown arch", arch: "sparc", want: libvirt.ErrConfigUnsupported},
		{name: "unknown machine", machine: "zz", want: libvirt.ErrInvalidArg},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, row.opts)
			doc, err := r.conn.ConnectGetDomainCapabilities(t.Context(), row.emulator, row.arch, row.machine, row.virt)
			wantCode(t, "domain capabilities", err, row.want)
			if !strings.Contains(doc, row.has) || (row.lacks != "" && strings.Contains(doc, row.lacks)) {
				t.Errorf("want %q and not %q in\n%s", row.has, row.lacks, doc)
			}
		})
	}
}

func TestNetworks(t *testing.T) {
	r := newRig(t, sim.Options{Networks: []string{"default", "dmz"}})
	ctx := t.Context()
	_, err := r.conn.NetworkLookupByName(ctx, "none")
	wantCode(t, "absent network", err, libvirt.ErrNoNetwork)
	n, err := r.conn.NetworkLookupByName(ctx, "dmz")
	r.must(err)
	r.host.SetNetworkActive("dmz", false)
	active, err := r.conn.NetworkIsActive(ctx, n)
	r.must(err)
	if active {
		t.Error("a stopped network is active")
	}
	leases, err := r.conn.NetworkGetDhcpLeases(ctx, n)
	wantCode(t, "leases of a stopped network", err, 0)
	if len(leases) != 0 {
		t.Errorf("leases: got %v", leases)
	}
	r.host.RemoveNetwork("dmz")
	_, err = r.conn.NetworkIsActive(ctx, n)
	wantCode(t, "stale network", err, libvirt.ErrNoNetwork)
	_, err = r.conn.NetworkGetDhcpLeases(ctx, n)
	wantCode(t, "leases of a stale network", err, libvirt.ErrNoNetwork)
}

func TestInterfaces(t *testing.T) {
	r := newRig(t, sim.Options{})
	_, err := r.conn.InterfaceLookupByName(t.Context(), "br0")
	wantCode(t, "bridge", err, 0)
	_, err = r.conn.InterfaceLookupByName(t.Context(), "nobr")
	wantCode(t, "absent bridge", err, libvirt.ErrNoInterface)
	r = newRig(t, sim.Options{NoInterfaceDriver: true})
	_, err = r.conn.InterfaceLookupByName(t.Context(), "br0")
	wantCode(t, "no interface driver", err, libvirt.ErrNoSupport)
}

func TestStats_oneSnapshotOfAllStates(t *testing.T) {
	r := newRig(t, sim.Options{})
	a := r.running("", onBridge)
	r.define(domainXML("b", uuidB, "", poolDir+"b", ""))
	r.must(r.host.Pause("a", libvirt.DomainPausedIoerror))
	records, err := r.conn.ConnectGetAllDomainStats(t.Context())
	r.must(err)
	if !slices.EqualFunc(records, []string{"a", "b"}, func(s libvirt.DomainStatsRecord, n string) bool { return s.Dom.Name == n }) {
		t.Fatalf("records: got %v", records)
	}
	want := []libvirt.TypedParam{
		{Field: "state.state", Value: libvirt.TypedParamValue{D: 1, I: int32(libvirt.DomainPaused)}},
		{Field: "state.reason", Value: libvirt.TypedParamValue{D: 1, I: int32(libvirt.DomainPausedIoerror)}},
	}
	if diff := cmp.Diff(want, records[0].Params); diff != "" {
		t.Errorf("state of a paused domain (-want +got):\n%s", diff)
	}
	if records[0].Dom.UUID != a.UUID || records[0].Dom.ID < 1 || records[1].Dom.ID != -1 {
		t.Errorf("handles: got %+v and %+v", records[0].Dom, records[1].Dom)
	}
}
