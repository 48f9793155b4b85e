package hostsuite

import (
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

func testLookups(s *suite) {
	_, err := s.conn.DomainLookupByName(s.ctx, s.name("none"))
	s.want("absent domain by name", err, libvirt.ErrNoDomain)
	_, err = s.conn.StoragePoolLookupByName(s.ctx, s.name("none"))
	s.want("absent pool", err, libvirt.ErrNoStoragePool)
	_, err = s.conn.NetworkLookupByName(s.ctx, s.name("none"))
	s.want("absent network", err, libvirt.ErrNoNetwork)
	_, err = s.conn.StorageVolGetXMLDesc(s.ctx, libvirt.StorageVol{Pool: s.Pool, Name: s.name("none")})
	s.want("absent volume", err, libvirt.ErrNoStorageVol)

	dom := libvirt.Domain{Name: s.name("none"), UUID: libvirt.UUID(uuid.New()), ID: -1}
	_, _, err = s.conn.DomainGetState(s.ctx, dom)
	s.want("state by a stale handle", err, libvirt.ErrNoDomain)
	_, err = s.conn.DomainGetXMLDesc(s.ctx, dom, 0)
	s.want("XML by a stale handle", err, libvirt.ErrNoDomain)
	_, err = s.conn.DomainIsPersistent(s.ctx, dom)
	s.want("persistent by a stale handle", err, libvirt.ErrNoDomain)
	_, err = s.conn.DomainInterfaceAddresses(s.ctx, dom, libvirt.DomainInterfaceAddressesSrcLease)
	s.want("addresses by a stale handle", err, libvirt.ErrNoDomain)
	s.want("start by a stale handle", s.conn.DomainCreate(s.ctx, dom, 0), libvirt.ErrNoDomain)
	s.want("destroy by a stale handle", s.conn.DomainDestroy(s.ctx, dom), libvirt.ErrNoDomain)
	s.want("undefine by a stale handle", s.conn.DomainUndefine(s.ctx, dom, undefineAll), libvirt.ErrNoDomain)
	s.want("autostart by a stale handle", s.conn.DomainSetAutostart(s.ctx, dom, true), libvirt.ErrNoDomain)
	s.want("metadata by a stale handle",
		s.conn.DomainSetMetadata(s.ctx, dom, "<a/>", "k2", markSpace, libvirt.DomainAffectConfig), libvirt.ErrNoDomain)

	net := libvirt.Network{Name: s.Network, UUID: libvirt.UUID(uuid.New())}
	_, err = s.conn.NetworkIsActive(s.ctx, net)
	s.want("network by a stale handle", err, libvirt.ErrNoNetwork)
	pool := libvirt.StoragePool{Name: s.Pool, UUID: libvirt.UUID(uuid.New())}
	s.want("refresh by a stale handle", s.conn.StoragePoolRefresh(s.ctx, pool), libvirt.ErrNoStoragePool)
}

func testDefine(s *suite) {
	const id = "6a1f3c52-0d54-4f0b-9b1c-3f3a1a5d7e01"
	head := "<domain type='" + s.DomainType + "'><name>" + s.name("x") + "</name>"
	const memory, os = "<memory>65536</memory>", "<os><type>hvm</type></os>"
	s.define(machine{name: "a", uuid: id})
	rows := []struct {
		name  string
		xml   string
		flags libvirt.DomainDefineFlags
		want  libvirt.ErrorNumber
	}{
		{"same name and UUID", s.xml(machine{name: "a", uuid: id}), 0, 0},
		{"same name, other UUID", s.xml(machine{name: "a"}), 0, libvirt.ErrOperationFailed},
		{"other name, same UUID", s.xml(machine{name: "b", uuid: id}), 0, libvirt.ErrOperationFailed},
		{"malformed", "<domain", 0, libvirt.ErrXMLDetail},
		{"empty", "", 0, libvirt.ErrXMLDetail},
		{"other root", "<network/>", 0, libvirt.ErrXMLError},
		{"no os", head + memory + "</domain>", 0, libvirt.ErrXMLError},
		{"no memory", head + os + "</domain>", 0, libvirt.ErrXMLError},
		{"no name", "<domain type='qemu'>" + memory + os + "</domain>", 0, libvirt.ErrNoName},
		{"slash in the name", "<domain type='qemu'><name>a/b</name>" + memory + os + "</domain>", 0, libvirt.ErrXMLError},
		{"no type", "<domain><name>" + s.name("x") + "</name>" + memory + os + "</domain>", 0, libvirt.ErrInternalError},
		{"unknown type", "<domain type='zz'><name>" + s.name("x") + "</name>" + memory + os + "</domain>", 0, libvirt.ErrConfigUnsupported},
		{"type without emulator", "<domain type='xen'><name>" + s.name("x") + "</name>" + memory + os + "</domain>", 0, libvirt.ErrConfigUnsupported},
		{"absent emulator", head + memory + os + "<devices><emulator>/nope</emulator></devices></domain>", 0, libvirt.ErrSystemError},
		{"other architecture", head + memory + "<os><type arch='sparc'>hvm</type></os></domain>", 0, libvirt.ErrConfigUnsupported},
		{"disk without target", head + memory + os + "<devices><disk type='file'/></devices></domain>", 0, libvirt.ErrNoTarget},
		{"unknown element, unchecked", head + memory + os + "<zz/></domain>", 0, 0},
		{"unknown element, checked", head + memory + os + "<zz/></domain>", libvirt.DomainDefineValidate, libvirt.ErrXMLInvalidSchema},
	}
	for _, row := range rows {
		d, err := s.conn.DomainDefineXML(s.ctx, row.xml, row.flags)
		s.want(row.name, err, row.want)
		if err == nil && d.Name == s.name("x") {
			s.must("undefine", s.conn.DomainUndefine(s.ctx, d, undefineAll))
		}
	}
}

func testLifecycle(s *suite) {
	s.volume("a", "qcow2", 1<<20, "")
	d := s.define(machine{name: "a", disk: s.path("a"), devices: onBridge(s.Bridge)})
	if d.ID != -1 {
		s.Errorf("ID of a domain that is off: got %d, want -1", d.ID)
	}
	s.wantState("freshly defined", d, libvirt.DomainShutoff, int32(libvirt.DomainShutoffUnknown))
	s.want("destroy of a domain that is off", s.conn.DomainDestroy(s.ctx, d), libvirt.ErrOperationInvalid)

	s.want("start", s.conn.DomainCreate(s.ctx, d, libvirt.DomainStartResetNvram), 0)
	s.wantState("started", d, libvirt.DomainRunning, int32(libvirt.DomainRunningBooted))
	s.want("start of a running domain", s.conn.DomainCreate(s.ctx, d, 0), libvirt.ErrOperationInvalid)
	again, err := s.conn.DomainLookupByName(s.ctx, d.Name)
	s.must("look up", err)
	if again.ID < 1 || again.UUID != d.UUID {
		s.Errorf("handle of a running domain: got %+v", again)
	}
	live, err := s.conn.DomainGetXMLDesc(s.ctx, d, 0)
	s.must("live XML", err)
	stored, err := s.conn.DomainGetXMLDesc(s.ctx, d, libvirt.DomainXMLInactive)
	s.must("stored XML", err)
	if !strings.Contains(live, "<target dev='vnet") && !strings.Contains(live, `<target dev="vnet`) {
		s.Errorf("live XML has no tap device:\n%s", live)
	}
	if strings.Contains(stored, "vnet") {
		s.Errorf("stored XML has a tap device:\n%s", stored)
	}
	s.want("autostart", s.conn.DomainSetAutostart(s.ctx, d, true), 0)

	s.want("destroy", s.conn.DomainDestroy(s.ctx, d), 0)
	s.wantState("destroyed", d, libvirt.DomainShutoff, int32(libvirt.DomainShutoffDestroyed))
	s.want("undefine", s.conn.DomainUndefine(s.ctx, d, undefineAll), 0)
	_, err = s.conn.DomainLookupByName(s.ctx, d.Name)
	s.want("look up after undefine", err, libvirt.ErrNoDomain)
}

func testTransient(s *suite) {
	s.volume("a", "qcow2", 1<<20, "")
	m := machine{name: "a", uuid: uuid.NewString(), disk: s.path("a")}
	d := s.start(m)
	s.want("undefine of a running domain", s.conn.DomainUndefine(s.ctx, d, undefineAll), 0)
	s.wantPersistent("undefined while running", d, false)
	s.wantState("undefined while running", d, libvirt.DomainRunning, int32(libvirt.DomainRunningBooted))
	s.want("undefine of a transient domain", s.conn.DomainUndefine(s.ctx, d, undefineAll), libvirt.ErrOperationInvalid)
	s.want("autostart of a transient domain", s.conn.DomainSetAutostart(s.ctx, d, true), libvirt.ErrOperationInvalid)
	_, err := s.conn.DomainGetXMLDesc(s.ctx, d, libvirt.DomainXMLInactive)
	s.want("stored XML of a transient domain", err, 0)
	_, err = s.conn.DomainDefineXML(s.ctx, s.xml(machine{name: "a"}), 0)
	s.want("define over a transient namesake", err, libvirt.ErrOperationFailed)
	_, err = s.conn.DomainDefineXML(s.ctx, s.xml(m), 0)
	s.want("define of the transient domain itself", err, 0)
	s.wantPersistent("defined again", d, true)
	s.want("undefine again", s.conn.DomainUndefine(s.ctx, d, undefineAll), 0)
	s.want("destroy of a transient domain", s.conn.DomainDestroy(s.ctx, d), 0)
	_, _, err = s.conn.DomainGetState(s.ctx, d)
	s.want("state after its destroy", err, libvirt.ErrNoDomain)
}

func (s *suite) wantPersistent(what string, d libvirt.Domain, want bool) {
	s.Helper()
	got, err := s.conn.DomainIsPersistent(s.ctx, d)
	s.must("persistent "+what, err)
	if got != want {
		s.Errorf("%s: got persistent %t, want %t", what, got, want)
	}
}

func testNVRAM(s *suite) {
	s.volume("a", "qcow2", 1<<20, "")
	m := machine{name: "a", firmware: "efi", disk: s.path("a")}
	d := s.define(m)
	s.want("undefine of one never started, without flags", s.conn.DomainUndefine(s.ctx, d, 0), 0)
	d = s.start(m)
	s.want("undefine without flags, running", s.conn.DomainUndefine(s.ctx, d, 0), libvirt.ErrOperationInvalid)
	s.must("destroy", s.conn.DomainDestroy(s.ctx, d))
	s.want("undefine without flags", s.conn.DomainUndefine(s.ctx, d, 0), libvirt.ErrOperationInvalid)
	s.want("undefine with other flags", s.conn.DomainUndefine(s.ctx, d, undefineAll&^libvirt.DomainUndefineNvram), libvirt.ErrOperationInvalid)
	s.want("undefine with the flag", s.conn.DomainUndefine(s.ctx, d, libvirt.DomainUndefineNvram), 0)
	d = s.define(m)
	s.want("undefine of the next one, never started", s.conn.DomainUndefine(s.ctx, d, 0), 0)
}

func testMetadata(s *suite) {
	s.volume("a", "qcow2", 1<<20, "")
	d := s.define(machine{name: "a", disk: s.path("a")})
	const next = "<inst id='t2'><owner>you</owner></inst>"
	set := func(xml string, flags libvirt.DomainModificationImpact) error {
		return s.conn.DomainSetMetadata(s.ctx, d, xml, "k2", markSpace, flags)
	}
	both := libvirt.DomainAffectConfig | libvirt.DomainAffectLive
	s.wantMark(d, libvirt.DomainXMLInactive, "t1", "me")
	s.want("stored, off", set(next, libvirt.DomainAffectConfig), 0)
	s.wantMark(d, libvirt.DomainXMLInactive, "t2", "you")
	s.want("live, off", set(next, libvirt.DomainAffectLive), libvirt.ErrOperationInvalid)
	s.want("both, off", set(next, both), libvirt.ErrOperationInvalid)
	s.want("malformed", set("<inst", libvirt.DomainAffectConfig), libvirt.ErrXMLDetail)
	s.want("with a namespace of its own",
		set("<k2:inst xmlns:k2='"+markSpace+"' id='t9'/>", libvirt.DomainAffectConfig), libvirt.ErrInternalError)

	s.must("start", s.conn.DomainCreate(s.ctx, d, 0))
	s.wantMark(d, 0, "t2", "you")
	s.want("both, running", set("<inst id='t3'><owner>them</owner></inst>", both), 0)
	s.wantMark(d, 0, "t3", "them")
	s.wantMark(d, libvirt.DomainXMLInactive, "t3", "them")
	s.want("stored, running", set(next, libvirt.DomainAffectConfig), 0)
	s.wantMark(d, 0, "t3", "them")
	s.wantMark(d, libvirt.DomainXMLInactive, "t2", "you")
	s.must("destroy", s.conn.DomainDestroy(s.ctx, d))
	s.wantMark(d, 0, "t2", "you")
	s.must("start", s.conn.DomainCreate(s.ctx, d, 0))
	s.must("undefine", s.conn.DomainUndefine(s.ctx, d, undefineAll))
	s.want("stored, transient", set(next, libvirt.DomainAffectConfig), libvirt.ErrOperationInvalid)
	s.want("both, transient", set(next, both), libvirt.ErrOperationInvalid)
	s.want("live, transient", set(next, libvirt.DomainAffectLive), 0)
}

// wantMark checks our element as dumpxml shows it: indented, with prefix and namespace.
func (s *suite) wantMark(d libvirt.Domain, flags libvirt.DomainXMLFlags, id, owner string) {
	s.Helper()
	doc, err := s.conn.DomainGetXMLDesc(s.ctx, d, flags)
	s.must("XML", err)
	want := "  <metadata>\n    <k2:inst xmlns:k2=\"" + markSpace + "\" id=\"" + id + "\">\n      <k2:owner>" +
		owner + "</k2:owner>\n    </k2:inst>\n  </metadata>\n"
	if !strings.Contains(doc, want) {
		s.Errorf("got XML\n%s\nwant in it\n%s", doc, want)
	}
}

func testStartFailures(s *suite) {
	s.volume("a", "qcow2", 1<<20, "")
	rows := []struct {
		name, disk, devices string
		want                libvirt.ErrorNumber
	}{
		{"nodisk", s.path("none"), onBridge(s.Bridge), libvirt.ErrSystemError},
		{"nobridge", s.path("a"), onBridge("nobr"), libvirt.ErrSystemError},
		{"nonetwork", s.path("a"), onNetwork(s.name("none")), libvirt.ErrNoNetwork},
	}
	for _, row := range rows {
		d := s.define(machine{name: row.name, disk: row.disk, devices: row.devices})
		s.want("start "+row.name, s.conn.DomainCreate(s.ctx, d, 0), row.want)
		s.wantState(row.name, d, libvirt.DomainShutoff, int32(libvirt.DomainShutoffFailed))
	}
}

func testDiskLock(s *suite) {
	s.volume("a", "qcow2", 1<<20, "")
	s.start(machine{name: "a", disk: s.path("a")})
	d := s.define(machine{name: "b", disk: s.path("a")})
	s.want("start on another guest's disk", s.conn.DomainCreate(s.ctx, d, 0), libvirt.ErrInternalError)
}

func testAddresses(s *suite) {
	s.volume("a", "qcow2", 1<<20, "")
	s.volume("b", "qcow2", 1<<20, "")
	const lease, agent = libvirt.DomainInterfaceAddressesSrcLease, libvirt.DomainInterfaceAddressesSrcAgent
	a := s.define(machine{name: "a", disk: s.path("a"), devices: onNetwork(s.Network) + agentChannel})
	for _, source := range []libvirt.DomainInterfaceAddressesSource{lease, agent, libvirt.DomainInterfaceAddressesSrcArp, 7} {
		_, err := s.conn.DomainInterfaceAddresses(s.ctx, a, source)
		s.want("addresses of a domain that is off", err, libvirt.ErrOperationInvalid)
	}
	s.must("start", s.conn.DomainCreate(s.ctx, a, 0))
	_, err := s.conn.DomainInterfaceAddresses(s.ctx, a, agent)
	s.want("agent that is not up", err, libvirt.ErrAgentUnresponsive)
	_, err = s.conn.DomainInterfaceAddresses(s.ctx, a, 7)
	s.want("unknown source", err, libvirt.ErrArgumentUnsupported)
	got, err := s.conn.DomainInterfaceAddresses(s.ctx, a, lease)
	s.want("lease of a guest that has none", err, 0)
	if len(got) != 0 {
		s.Errorf("lease of a guest that has none: got %v", got)
	}

	b := s.start(machine{name: "b", disk: s.path("b"), devices: onBridge(s.Bridge)})
	_, err = s.conn.DomainInterfaceAddresses(s.ctx, b, agent)
	s.want("agent without a channel", err, libvirt.ErrArgumentUnsupported)
	_, err = s.conn.DomainInterfaceAddresses(s.ctx, b, lease)
	s.want("lease of a card on a bridge", err, 0)
}
