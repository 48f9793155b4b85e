package sim_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

const (
	lease = libvirt.DomainInterfaceAddressesSrcLease
	agent = libvirt.DomainInterfaceAddressesSrcAgent
	arp   = libvirt.DomainInterfaceAddressesSrcArp
)

// known says what each source answers: an IPv4 address with its prefix, "-" for
// none, or the error's number.
func (r *rig) known(d libvirt.Domain) map[string]any {
	r.t.Helper()
	out := map[string]any{}
	for name, source := range map[string]libvirt.DomainInterfaceAddressesSource{"lease": lease, "agent": agent, "arp": arp} {
		got, err := r.conn.DomainInterfaceAddresses(r.t.Context(), d, source)
		if err != nil {
			out[name] = code(err)
			continue
		}
		out[name] = "-"
		for _, i := range got {
			if i.Hwaddr[0] == macA {
				out[name] = i.Addrs[0].Addr
			}
		}
	}
	return out
}

func TestGuest_addressesComeWithTime(t *testing.T) {
	const ip = "10.99.0.10"
	rows := []struct {
		name, devices    string
		early, mid, late map[string]any
	}{
		{
			"on a network, with agent", onNetwork + channel,
			map[string]any{"lease": "-", "agent": 86, "arp": "-"},
			map[string]any{"lease": ip, "agent": ip, "arp": "-"},
			map[string]any{"lease": ip, "agent": ip, "arp": ip},
		},
		{
			"on a bridge, with agent", onBridge + channel,
			map[string]any{"lease": "-", "agent": 86, "arp": "-"},
			map[string]any{"lease": "-", "agent": ip, "arp": "-"},
			map[string]any{"lease": "-", "agent": ip, "arp": ip},
		},
		{
			"on a bridge, without agent", onBridge,
			map[string]any{"lease": "-", "agent": 74, "arp": "-"},
			map[string]any{"lease": "-", "agent": 74, "arp": "-"},
			map[string]any{"lease": "-", "agent": 74, "arp": ip},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			now := time.Unix(1_800_000_000, 0)
			r := newRig(t, sim.Options{Subnet: prefix("10.99.0.0/24"), Now: func() time.Time { return now }})
			d := r.running("", row.devices)
			for _, step := range []struct {
				after time.Duration
				want  map[string]any
			}{{1900 * time.Millisecond, row.early}, {100 * time.Millisecond, row.mid}, {5 * time.Second, row.late}} {
				now = now.Add(step.after)
				if diff := cmp.Diff(step.want, r.known(d)); diff != "" {
					t.Errorf("addresses (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestGuest_bootsOnSynctestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sim.Options{Latency: time.Millisecond})
		d := r.running("", onNetwork+channel)
		_, err := r.conn.DomainInterfaceAddresses(t.Context(), d, agent)
		wantCode(t, "agent right after the start", err, libvirt.ErrAgentUnresponsive)
		time.Sleep(2 * time.Second)
		_, err = r.conn.DomainInterfaceAddresses(t.Context(), d, agent)
		wantCode(t, "agent after the boot", err, 0)
	})
}

func TestGuest_sourcesDiffer(t *testing.T) {
	r := newRig(t, sim.Options{BootDelay: -1, ARPDelay: -1, Subnet: prefix("10.99.0.0/24")})
	d := r.running("", onNetwork+channel)
	want := map[string][]libvirt.DomainInterface{
		"lease": {{Name: "vnet0", Hwaddr: libvirt.OptString{macA}, Addrs: []libvirt.DomainIPAddr{{Addr: "10.99.0.10", Prefix: 24}}}},
		"arp":   {{Name: "vnet0", Hwaddr: libvirt.OptString{macA}, Addrs: []libvirt.DomainIPAddr{{Addr: "10.99.0.10"}}}},
		"agent": {
			{Name: "lo", Hwaddr: libvirt.OptString{"00:00:00:00:00:00"}, Addrs: []libvirt.DomainIPAddr{
				{Addr: "127.0.0.1", Prefix: 8}, {Type: 1, Addr: "::1", Prefix: 128},
			}},
			{Name: "enp1s0", Hwaddr: libvirt.OptString{macA}, Addrs: []libvirt.DomainIPAddr{
				{Addr: "10.99.0.10", Prefix: 24}, {Type: 1, Addr: "fe80::a63:a", Prefix: 64},
			}},
		},
	}
	got := map[string][]libvirt.DomainInterface{}
	for name, source := range map[string]libvirt.DomainInterfaceAddressesSource{"lease": lease, "agent": agent, "arp": arp} {
		var err error
		got[name], err = r.conn.DomainInterfaceAddresses(t.Context(), d, source)
		r.must(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	net, err := r.conn.NetworkLookupByName(t.Context(), "default")
	r.must(err)
	leases, err := r.conn.NetworkGetDhcpLeases(t.Context(), net)
	r.must(err)
	if len(leases) != 1 || leases[0].Ipaddr != "10.99.0.10" || leases[0].Mac[0] != macA {
		t.Errorf("the network's leases: got %+v", leases)
	}
}

func TestGuest_silencedAndScripted(t *testing.T) {
	r := newRig(t, sim.Options{BootDelay: -1, ARPDelay: -1, Subnet: prefix("10.99.0.0/24")})
	d := r.running("", onNetwork+channel)
	for _, source := range []libvirt.DomainInterfaceAddressesSource{lease, agent, arp} {
		r.must(r.host.Silence("a", source, true))
	}
	if diff := cmp.Diff(map[string]any{"lease": "-", "agent": 86, "arp": "-"}, r.known(d)); diff != "" {
		t.Errorf("silenced (-want +got):\n%s", diff)
	}
	docker := []libvirt.DomainInterface{{Name: "docker0", Hwaddr: libvirt.OptString{"02:42:00:00:00:01"}}}
	r.must(r.host.Answer("a", agent, docker, nil))
	r.must(r.host.Answer("a", arp, nil, libvirt.Error{Code: uint32(libvirt.ErrInternalError), Message: "wrong nlmsg len"}))
	if diff := cmp.Diff(map[string]any{"lease": "-", "agent": "-", "arp": 1}, r.known(d)); diff != "" {
		t.Errorf("scripted (-want +got):\n%s", diff)
	}
}

func TestGuest_addressesAreUnique(t *testing.T) {
	r := newRig(t, sim.Options{BootDelay: -1, Subnet: prefix("10.99.0.0/28")})
	seen := map[string]bool{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		r.volume(name, "qcow2", 1<<20, "")
		const anyMAC = "<interface type='bridge'><source bridge='br0'/></interface>"
		r.must(r.host.AddForeignDomain(domainXML(name, uuid.NewString(), "", poolDir+name, anyMAC+channel), true))
		d, err := r.conn.DomainLookupByName(t.Context(), name)
		r.must(err)
		got, err := r.conn.DomainInterfaceAddresses(t.Context(), d, agent)
		r.must(err)
		addr := got[1].Addrs[0].Addr
		if seen[addr] || !strings.HasPrefix(addr, "10.99.0.") {
			t.Errorf("address of %s: got %s, given before: %v", name, addr, seen)
		}
		seen[addr] = true
	}
}

func TestGuest_endsAndPauses(t *testing.T) {
	rows := []struct {
		name   string
		do     func(*sim.Host) error
		state  libvirt.DomainState
		reason int32
	}{
		{"pause", func(h *sim.Host) error { return h.Pause("a", libvirt.DomainPausedIoerror) }, libvirt.DomainPaused, int32(libvirt.DomainPausedIoerror)},
		{"resume", func(h *sim.Host) error { return h.Resume("a") }, libvirt.DomainRunning, int32(libvirt.DomainRunningUnpaused)},
		{"shut down", func(h *sim.Host) error { return h.PowerOff("a") }, libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown)},
		{"crash", func(h *sim.Host) error { return h.Crash("a") }, libvirt.DomainShutoff, int32(libvirt.DomainShutoffCrashed)},
		{"any state", func(h *sim.Host) error { return h.SetState("a", libvirt.DomainState(99), 7) }, libvirt.DomainState(99), 7},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, sim.Options{})
			d := r.running("", onBridge)
			r.must(row.do(r.host))
			state, reason, err := r.conn.DomainGetState(t.Context(), d)
			r.must(err)
			if state != int32(row.state) || reason != row.reason {
				t.Errorf("got state %d reason %d, want %d %d", state, reason, row.state, row.reason)
			}
		})
	}
}

func TestGuest_helpersNeedTheirDomain(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.define(domainXML("off", uuidA, "", poolDir+"a", ""))
	for name, err := range map[string]error{
		"boot":        r.host.Boot("off"),
		"pause":       r.host.Pause("none", 0),
		"silence":     r.host.Silence("none", agent, true),
		"leftovers":   r.host.SetLeftovers("none", sim.Leftovers{}),
		"volume":      r.host.RemoveVolume("none"),
		"volume time": r.host.SetVolumeTime("none", time.Now()),
	} {
		if err == nil {
			t.Errorf("%s of what is not there: no error", name)
		}
	}
}

func TestGuest_bootNow(t *testing.T) {
	r := newRig(t, sim.Options{BootDelay: time.Hour, ARPDelay: time.Hour, Subnet: prefix("10.99.0.0/24")})
	d := r.running("", onNetwork+channel)
	r.must(r.host.Boot("a"))
	const ip = "10.99.0.10"
	if diff := cmp.Diff(map[string]any{"lease": ip, "agent": ip, "arp": ip}, r.known(d)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	r.must(r.host.Pause("a", libvirt.DomainPausedUser))
	if diff := cmp.Diff(map[string]any{"lease": ip, "agent": 55, "arp": ip}, r.known(d)); diff != "" {
		t.Errorf("addresses of a paused guest (-want +got):\n%s", diff)
	}
}

func TestKVMPauses_afterTheStart(t *testing.T) {
	r := newRig(t, sim.Options{KVMPauses: true, KVMPauseReason: libvirt.DomainPausedCrashed})
	r.volume("k", "qcow2", 1<<20, "")
	d := r.define(strings.Replace(domainXML("k", uuidA, "", poolDir+"k", ""), "type='qemu'", "type='kvm'", 1))
	wantCode(t, "start", r.conn.DomainCreate(t.Context(), d, 0), 0)
	state, reason, err := r.conn.DomainGetState(t.Context(), d)
	r.must(err)
	if state != int32(libvirt.DomainPaused) || reason != int32(libvirt.DomainPausedCrashed) {
		t.Errorf("got state %d reason %d, want paused for that reason", state, reason)
	}
}

func TestFirmware_missing(t *testing.T) {
	r := newRig(t, sim.Options{NoFirmware: true, NoKVM: true})
	r.volume("a", "qcow2", 1<<20, "")
	d := r.define(domainXML("a", uuidA, "efi", poolDir+"a", ""))
	wantCode(t, "start", r.conn.DomainCreate(t.Context(), d, 0), libvirt.ErrOperationFailed)
	_, err := r.conn.DomainDefineXML(t.Context(), strings.Replace(domainXML("k", uuidB, "", poolDir+"a", ""), "type='qemu'", "type='kvm'", 1), 0)
	wantCode(t, "kvm where there is none", err, libvirt.ErrConfigUnsupported)
}

// An NVRAM file is found by the domain's name, so a namesake boots with it
// unless its start resets it.
func TestNVRAM_outlivesItsDomain(t *testing.T) {
	r := newRig(t, sim.Options{})
	ctx := t.Context()
	r.running("efi", onBridge)
	old, err := r.conn.DomainLookupByName(ctx, "a")
	r.must(err)
	r.must(r.conn.DomainDestroy(ctx, old))
	r.must(r.conn.DomainUndefine(ctx, old, libvirt.DomainUndefineKeepNvram))

	next := r.define(domainXML("a", uuidB, "efi", poolDir+"a.qcow2", onBridge))
	r.must(r.conn.DomainCreate(ctx, next, 0))
	if d, _ := r.host.Domain("a"); d.NVRAMFrom != uuidA {
		t.Errorf("NVRAM without a reset: got that of %s, want that of %s", d.NVRAMFrom, uuidA)
	}
	r.must(r.conn.DomainDestroy(ctx, next))
	r.must(r.conn.DomainCreate(ctx, next, libvirt.DomainStartResetNvram))
	if d, _ := r.host.Domain("a"); d.NVRAMFrom != uuidB {
		t.Errorf("NVRAM after a reset: got that of %s, want that of %s", d.NVRAMFrom, uuidB)
	}
	r.must(r.conn.DomainDestroy(ctx, next))
	r.must(r.conn.DomainUndefine(ctx, next, libvirt.DomainUndefineNvram))
	if id, ok := r.host.NVRAM("a"); ok {
		t.Errorf("NVRAM after undefine: still there, of %s", id)
	}
}

func TestUndefine_leftoversNeedTheirFlags(t *testing.T) {
	rows := []struct {
		name string
		left sim.Leftovers
		flag libvirt.DomainUndefineFlagsValues
	}{
		{"managed save", sim.Leftovers{ManagedSave: true}, libvirt.DomainUndefineManagedSave},
		{"snapshot", sim.Leftovers{Snapshot: true}, libvirt.DomainUndefineSnapshotsMetadata},
		{"checkpoint", sim.Leftovers{Checkpoint: true}, libvirt.DomainUndefineCheckpointsMetadata},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, sim.Options{})
			d := r.define(domainXML("a", uuidA, "", poolDir+"a", ""))
			r.must(r.host.SetLeftovers("a", row.left))
			wantCode(t, "without the flag", r.conn.DomainUndefine(t.Context(), d, 0), libvirt.ErrOperationInvalid)
			wantCode(t, "with the flag", r.conn.DomainUndefine(t.Context(), d, row.flag), 0)
		})
	}
}

func TestConsole_appearsWithTheRefresh(t *testing.T) {
	r := newRig(t, sim.Options{})
	ctx := t.Context()
	const log = "<serial type='pty'><log file='" + poolDir + "a.console.log' append='on'/></serial>"
	d := r.running("", log)
	v := libvirt.StorageVol{Pool: r.pool.Name, Name: "a.console.log"}
	_, err := r.conn.StorageVolGetXMLDesc(ctx, v)
	wantCode(t, "before a refresh", err, libvirt.ErrNoStorageVol)
	r.must(r.conn.StoragePoolRefresh(ctx, r.pool))
	var once, twice strings.Builder
	r.must(r.conn.StorageVolDownload(ctx, v, &once, 0, 0))
	if !strings.Contains(once.String(), "a login:") {
		t.Errorf("console log: got %q", once.String())
	}
	r.must(r.conn.DomainDestroy(ctx, d))
	r.must(r.conn.DomainCreate(ctx, d, 0))
	r.must(r.conn.StorageVolDownload(ctx, v, &twice, 0, 0))
	if !strings.HasPrefix(twice.String(), once.String()) || twice.Len() <= once.Len() {
		t.Errorf("a second start does not append: got %q", twice.String())
	}
}
