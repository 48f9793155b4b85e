// Package hostsuite states, as a suite of tests, how a libvirt host behaves
// behind the seam: which calls succeed, with which effect, and with which
// number of libvirt's the others fail. The simulator and real hosts pass the
// same suite, which is what makes the simulator worth testing against.
package hostsuite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// Target is the host under test.
type Target struct {
	// Connector opens connections to it.
	Connector libvirtx.Connector
	// Pool is a directory pool with a few MiB of room.
	Pool string
	// SmallPool has less than 100 MiB and is empty; "" leaves those tests out.
	SmallPool string
	// Network and Bridge exist and are active.
	Network string
	Bridge  string
	// DomainType is what guests run as ("qemu").
	DomainType string
	// Prefix starts the name of all that the suite makes. What carries it is
	// removed before and after each test.
	Prefix string
}

// Run runs the suite.
func Run(t *testing.T, target Target) {
	t.Helper()
	if target.DomainType == "" {
		target.DomainType = "qemu"
	}
	tests := []struct {
		name string
		run  func(*suite)
	}{
		{"lookups", testLookups},
		{"define", testDefine},
		{"lifecycle", testLifecycle},
		{"transient", testTransient},
		{"nvram", testNVRAM},
		{"metadata", testMetadata},
		{"start failures", testStartFailures},
		{"disk lock", testDiskLock},
		{"addresses", testAddresses},
		{"volume create", testVolumeCreate},
		{"directory", testDirectory},
		{"volume content", testVolumeContent},
		{"overlay", testOverlay},
		{"volume in use", testVolumeInUse},
		{"upload", testUpload},
		{"small pool", testSmallPool},
		{"pool figures", testPoolFigures},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSuite(t, target)
			s.clean()
			t.Cleanup(s.clean)
			tt.run(s)
		})
	}
}

// suite is one test's view of the host.
type suite struct {
	*testing.T
	Target
	ctx  context.Context
	conn libvirtx.Conn
	pool libvirt.StoragePool
	dir  string
}

func newSuite(t *testing.T, target Target) *suite {
	t.Helper()
	// Clean-ups run after t.Context has ended.
	s := &suite{T: t, Target: target, ctx: context.WithoutCancel(t.Context())}
	conn, err := target.Connector.Connect(s.ctx)
	s.must("connect", err)
	t.Cleanup(func() { _ = conn.Close() })
	s.conn = conn
	s.pool, err = conn.StoragePoolLookupByName(s.ctx, target.Pool)
	s.must("look up pool", err)
	probe, err := conn.StorageVolCreateXML(s.ctx, s.pool, volumeXML(s.name("probe"), "raw", 0, ""), 0)
	if code(err) == int(libvirt.ErrStorageVolExist) {
		probe, err = libvirt.StorageVol{Pool: target.Pool, Name: s.name("probe")}, nil
	}
	s.must("create the probe volume", err)
	path, err := conn.StorageVolGetPath(s.ctx, probe)
	s.must("get the probe volume's path", err)
	s.dir = strings.TrimSuffix(path, s.name("probe"))
	return s
}

func (s *suite) name(n string) string { return s.Prefix + n }

func (s *suite) path(n string) string { return s.dir + s.name(n) }

// clean removes everything that carries the prefix.
func (s *suite) clean() {
	s.Helper()
	records, err := s.conn.ConnectGetAllDomainStats(s.ctx)
	s.must("list domains", err)
	for _, r := range records {
		if strings.HasPrefix(r.Dom.Name, s.Prefix) {
			_ = s.conn.DomainDestroy(s.ctx, r.Dom)
			_ = s.conn.DomainUndefine(s.ctx, r.Dom, undefineAll)
		}
	}
	for _, name := range []string{s.Pool, s.SmallPool} {
		if name == "" {
			continue
		}
		pool, err := s.conn.StoragePoolLookupByName(s.ctx, name)
		s.must("look up pool", err)
		volumes, err := s.conn.StoragePoolListAllVolumes(s.ctx, pool)
		s.must("list volumes", err)
		for _, v := range volumes {
			if strings.HasPrefix(v.Name, s.Prefix) {
				s.must("delete volume", s.conn.StorageVolDelete(s.ctx, v))
			}
		}
	}
}

const undefineAll = libvirt.DomainUndefineNvram | libvirt.DomainUndefineManagedSave |
	libvirt.DomainUndefineSnapshotsMetadata | libvirt.DomainUndefineCheckpointsMetadata

func (s *suite) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// want checks libvirt's number in err; 0 is success.
func (s *suite) want(what string, err error, number libvirt.ErrorNumber) {
	s.Helper()
	if got := code(err); got != int(number) {
		s.Errorf("%s: got code %d (%v), want %d", what, got, err, number)
	}
}

// code is libvirt's number in err: 0 for success, -1 for an error without one.
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

// volume creates a volume of the pool.
func (s *suite) volume(n, format string, bytes uint64, extra string) libvirt.StorageVol {
	s.Helper()
	v, err := s.conn.StorageVolCreateXML(s.ctx, s.pool, volumeXML(s.name(n), format, bytes, extra), 0)
	s.must("create volume "+n, err)
	return v
}

func volumeXML(name, format string, bytes uint64, extra string) string {
	return fmt.Sprintf("<volume><name>%s</name><capacity unit='bytes'>%d</capacity><target><format type='%s'/></target>%s</volume>",
		name, bytes, format, extra)
}

func backing(path, format string) string {
	return "<backingStore><path>" + path + "</path><format type='" + format + "'/></backingStore>"
}

// machine is a domain to be defined.
type machine struct {
	name, uuid, firmware, disk, devices string
	readonly                            bool
}

// The devices that tests add to a machine.
const agentChannel = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"

func onBridge(name string) string {
	return "<interface type='bridge'><source bridge='" + name + "'/><model type='virtio'/></interface>"
}

func onNetwork(name string) string {
	return "<interface type='network'><source network='" + name + "'/><model type='virtio'/></interface>"
}

const (
	markSpace = "urn:kvm2d-hostsuite"
	markXML   = `<metadata><k2:inst xmlns:k2="` + markSpace + `" id="t1"><k2:owner>me</k2:owner></k2:inst></metadata>`
)

// xml describes m, with a fresh UUID unless it has one.
func (s *suite) xml(m machine) string {
	if m.uuid == "" {
		m.uuid = uuid.NewString()
	}
	os, readonly := "<os>", ""
	if m.firmware != "" {
		os = "<os firmware='" + m.firmware + "'>"
	}
	if m.readonly {
		readonly = "<readonly/>"
	}
	disk := ""
	if m.disk != "" {
		disk = fmt.Sprintf("<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>"+
			"<source file='%s'/><target dev='vda' bus='virtio'/>%s</disk>", m.disk, readonly)
	}
	return fmt.Sprintf("<domain type='%s'><name>%s</name><uuid>%s</uuid>%s<memory unit='MiB'>256</memory><vcpu>1</vcpu>"+
		"%s<type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features><devices>%s%s</devices></domain>",
		s.DomainType, s.name(m.name), m.uuid, markXML, os, disk, m.devices)
}

func (s *suite) define(m machine) libvirt.Domain {
	s.Helper()
	d, err := s.conn.DomainDefineXML(s.ctx, s.xml(m), 0)
	s.must("define "+m.name, err)
	return d
}

func (s *suite) start(m machine) libvirt.Domain {
	s.Helper()
	d := s.define(m)
	s.must("start "+m.name, s.conn.DomainCreate(s.ctx, d, 0))
	return d
}

// wantState checks state and reason.
func (s *suite) wantState(what string, d libvirt.Domain, state libvirt.DomainState, reason int32) {
	s.Helper()
	gotState, gotReason, err := s.conn.DomainGetState(s.ctx, d)
	s.must("state "+what, err)
	if gotState != int32(state) || gotReason != reason {
		s.Errorf("%s: got state %d reason %d, want %d %d", what, gotState, gotReason, state, reason)
	}
}
