package hostsuite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing/iotest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// describe reads a volume back.
func (s *suite) describe(v libvirt.StorageVol) libvirtxml.StorageVolume {
	s.Helper()
	doc, err := s.conn.StorageVolGetXMLDesc(s.ctx, v)
	s.must("volume XML", err)
	var x libvirtxml.StorageVolume
	s.must("parse volume XML", x.Unmarshal(doc))
	return x
}

// noticeWait is how long a host may take to notice what was uploaded: it looks
// at the pool on its own, after the upload was answered.
const noticeWait = 20 * time.Second

// eventually polls for what follows from an upload.
func (s *suite) eventually(holds func() bool) bool {
	ctx, cancel := context.WithTimeout(s.ctx, noticeWait)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// listed is the pool's handle of a volume.
func (s *suite) listed(n string) libvirt.StorageVol {
	s.Helper()
	all, err := s.conn.StoragePoolListAllVolumes(s.ctx, s.pool)
	s.must("list volumes", err)
	for _, v := range all {
		if v.Name == s.name(n) {
			return v
		}
	}
	s.Fatalf("volume %s is not listed", n)
	return libvirt.StorageVol{}
}

// wantVolume waits for format, capacity and length in bytes.
func (s *suite) wantVolume(what string, v libvirt.StorageVol, format string, capacity, physical uint64) {
	s.Helper()
	var x libvirtxml.StorageVolume
	if !s.eventually(func() bool {
		x = s.describe(v)
		return x.Target.Format.Type == format && x.Capacity.Value == capacity && x.Physical.Value == physical
	}) {
		s.Errorf("%s: got %s of %d bytes in %d, want %s of %d in %d", what,
			x.Target.Format.Type, x.Capacity.Value, x.Physical.Value, format, capacity, physical)
	}
}

// qcow2Image is a qcow2 header of that virtual size, padded to length.
func qcow2Image(virtual uint64, length int) []byte {
	b := make([]byte, length)
	copy(b, "QFI\xfb\x00\x00\x00\x03")
	b[23] = 16
	binary.BigEndian.PutUint64(b[24:], virtual)
	return b
}

func testVolumeCreate(s *suite) {
	s.volume("raw", "raw", 1<<20, "")
	rows := []struct {
		name string
		xml  string
		want libvirt.ErrorNumber
	}{
		{"exists", volumeXML(s.name("raw"), "raw", 1<<20, ""), libvirt.ErrStorageVolExist},
		{"exists, other format", volumeXML(s.name("raw"), "qcow2", 1<<20, ""), libvirt.ErrStorageVolExist},
		{"malformed", "<volume><name>x", libvirt.ErrXMLDetail},
		{"empty", "", libvirt.ErrXMLDetail},
		{"other root", "<pool/>", libvirt.ErrXMLError},
		{"no name", "<volume><capacity>10</capacity></volume>", libvirt.ErrXMLError},
		{"no capacity", "<volume><name>" + s.name("x") + "</name></volume>", libvirt.ErrXMLError},
		{"slash in the name", volumeXML(s.name("a/b"), "raw", 10, ""), libvirt.ErrOperationInvalid},
		{"unknown format", volumeXML(s.name("x"), "zz", 10, ""), libvirt.ErrConfigUnsupported},
		{"absent backing file", volumeXML(s.name("x"), "qcow2", 1<<20, backing(s.path("none"), "qcow2")), libvirt.ErrSystemError},
		{"backing file of another format", volumeXML(s.name("x"), "qcow2", 1<<20, backing(s.path("raw"), "qcow2")), libvirt.ErrInternalError},
		{"no capacity but a backing file", "<volume><name>" + s.name("ov") + "</name><target><format type='qcow2'/></target>" +
			backing(s.path("raw"), "raw") + "</volume>", 0},
		{"scaled capacity", "<volume><name>" + s.name("kib") + "</name><capacity unit='KiB'>10</capacity></volume>", 0},
	}
	for _, row := range rows {
		_, err := s.conn.StorageVolCreateXML(s.ctx, s.pool, row.xml, 0)
		s.want(row.name, err, row.want)
	}
	kib := s.listed("kib")
	s.wantVolume("scaled capacity", kib, "raw", 10240, 10240)
	if kib.Key != s.path("kib") || kib.Pool != s.Pool {
		s.Errorf("handle: got %+v", kib)
	}

	gone := libvirt.StorageVol{Pool: s.Pool, Name: s.name("none"), Key: s.path("none")}
	_, err := s.conn.StorageVolGetPath(s.ctx, gone)
	s.want("path by a stale handle", err, libvirt.ErrNoStorageVol)
	_, err = s.conn.StorageVolGetXMLDesc(s.ctx, gone)
	s.want("XML by a stale handle", err, libvirt.ErrNoStorageVol)
	s.want("delete by a stale handle", s.conn.StorageVolDelete(s.ctx, gone), libvirt.ErrNoStorageVol)
	s.want("upload by a stale handle", s.conn.StorageVolUpload(s.ctx, gone, bytes.NewReader(nil), 0, 1), libvirt.ErrNoStorageVol)
	s.want("download by a stale handle", s.conn.StorageVolDownload(s.ctx, gone, io.Discard, 0, 1), libvirt.ErrNoStorageVol)
	gone.Pool = s.name("none")
	s.want("delete in an absent pool", s.conn.StorageVolDelete(s.ctx, gone), libvirt.ErrNoStoragePool)
}

// testDirectory: a directory takes a name in the pool, and no guest starts on it.
func testDirectory(s *suite) {
	doc := volumeXML(s.name("a"), "dir", 0, "")
	v, err := s.conn.StorageVolCreateXML(s.ctx, s.pool, doc, 0)
	s.must("create", err)
	_, err = s.conn.StorageVolCreateXML(s.ctx, s.pool, doc, 0)
	s.want("create it again", err, libvirt.ErrStorageVolExist)
	_, err = s.conn.StorageVolCreateXML(s.ctx, s.pool, volumeXML(s.name("a"), "raw", 1<<20, ""), 0)
	s.want("create a file of its name", err, libvirt.ErrStorageVolExist)
	for _, when := range []string{"at once", "after a refresh"} {
		if x := s.describe(s.listed("a")); x.Type != "dir" || x.Target.Format.Type != "dir" || x.Capacity.Value != 0 || x.Physical != nil {
			s.Errorf("%s: got a %s of format %s, capacity %d, length %+v", when, x.Type, x.Target.Format.Type, x.Capacity.Value, x.Physical)
		}
		s.must("refresh", s.conn.StoragePoolRefresh(s.ctx, s.pool))
	}
	s.want("upload", s.conn.StorageVolUpload(s.ctx, v, bytes.NewReader([]byte("a")), 0, 1), libvirt.ErrSystemError)
	// As a seed is attached: raw, so that it is QEMU that refuses.
	seed := "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='" + s.path("a") +
		"'/><target dev='vdb' bus='virtio'/><readonly/></disk>"
	s.want("start on it", s.conn.DomainCreate(s.ctx, s.define(machine{name: "a", devices: seed}), 0), libvirt.ErrInternalError)
	s.want("delete", s.conn.StorageVolDelete(s.ctx, v), 0)
	s.want("delete it again", s.conn.StorageVolDelete(s.ctx, v), libvirt.ErrNoStorageVol)
}

// testVolumeContent: what a volume is follows from what is in it.
func testVolumeContent(s *suite) {
	const emptyQCOW2 = 196616
	iso := make([]byte, 64<<10)
	iso[32768] = 1
	copy(iso[32769:], "CD001")
	image := qcow2Image(256<<20, 128<<10)
	rows := []struct {
		name, format string
		bytes        uint64
		upload       []byte
		wantFormat   string
		wantCapacity uint64
		wantPhysical uint64
	}{
		{"raw", "raw", 1 << 20, nil, "raw", 1 << 20, 1 << 20},
		{"qcow2", "qcow2", 10 << 20, nil, "qcow2", 10 << 20, emptyQCOW2},
		{"iso", "raw", 64 << 10, iso, "iso", 64 << 10, 64 << 10},
		{"image", "qcow2", 10 << 20, image, "qcow2", 256 << 20, emptyQCOW2},
		{"image-in-raw", "raw", 128 << 10, image, "qcow2", 256 << 20, 128 << 10},
		{"raw-in-qcow2", "qcow2", 1 << 20, make([]byte, 128<<10), "raw", emptyQCOW2, emptyQCOW2},
		{"short", "raw", 1 << 20, []byte("hello"), "raw", 1 << 20, 1 << 20},
		{"long", "raw", 1 << 20, make([]byte, 3<<20), "raw", 3 << 20, 3 << 20},
	}
	for _, row := range rows {
		v := s.volume(row.name, row.format, row.bytes, "")
		if row.upload != nil {
			s.want("upload "+row.name, s.conn.StorageVolUpload(s.ctx, v, bytes.NewReader(row.upload), 0, 0), 0)
		}
		s.wantVolume(row.name, v, row.wantFormat, row.wantCapacity, row.wantPhysical)
	}
}

func testOverlay(s *suite) {
	s.volume("base", "qcow2", 256<<20, "")
	below := backing(s.path("base"), "qcow2")
	rows := []struct {
		name  string
		bytes uint64
		want  uint64
	}{
		{"larger", 300 << 20, 300 << 20},
		{"smaller", 1 << 20, 1 << 20},
		{"zero", 0, 256 << 20},
	}
	for _, row := range rows {
		x := s.describe(s.volume(row.name, "qcow2", row.bytes, below))
		if x.Capacity.Value != row.want || x.BackingStore == nil || x.BackingStore.Path != s.path("base") {
			s.Errorf("%s: got capacity %d on %+v, want %d on %s", row.name, x.Capacity.Value, x.BackingStore, row.want, s.path("base"))
		}
		// A create tells by it that no guest has written yet.
		if x.Physical == nil || x.Physical.Value == 0 || x.Physical.Value > 256<<10 {
			s.Errorf("%s: got a length of %+v before anything was written, want up to 256 KiB", row.name, x.Physical)
		}
	}
	_, err := s.conn.StorageVolCreateXML(s.ctx, s.pool, volumeXML(s.name("larger"), "qcow2", 300<<20, below), 0)
	s.want("a second time", err, libvirt.ErrStorageVolExist)
	s.must("refresh", s.conn.StoragePoolRefresh(s.ctx, s.pool))
	if x := s.describe(s.listed("larger")); x.BackingStore == nil || x.BackingStore.Path != s.path("base") || x.Capacity.Value != 300<<20 {
		s.Errorf("after a refresh: got %d on %+v", x.Capacity.Value, x.BackingStore)
	}
}

// testVolumeInUse: nothing protects the disks of a running guest.
func testVolumeInUse(s *suite) {
	base := s.volume("base", "qcow2", 1<<20, "")
	overlay := s.volume("a", "qcow2", 1<<20, backing(s.path("base"), "qcow2"))
	d := s.start(machine{name: "a", disk: s.path("a")})
	s.want("delete the overlay", s.conn.StorageVolDelete(s.ctx, overlay), 0)
	s.want("delete the base", s.conn.StorageVolDelete(s.ctx, base), 0)
	s.wantState("without its disks", d, libvirt.DomainRunning, int32(libvirt.DomainRunningBooted))
	s.must("destroy", s.conn.DomainDestroy(s.ctx, d))
	s.want("start without its disks", s.conn.DomainCreate(s.ctx, d, 0), libvirt.ErrSystemError)
}

func testUpload(s *suite) {
	v := s.volume("a", "raw", 1<<20, "")
	text := []byte("some bytes that come back")
	s.must("upload at an offset", s.conn.StorageVolUpload(s.ctx, v, bytes.NewReader(text), 1000, uint64(len(text))))
	for _, row := range []struct {
		name           string
		offset, length uint64
		want           string
	}{
		{"a part", 1005, 5, "bytes"},
		{"zeros", 0, 3, "\x00\x00\x00"},
		{"behind the end", 2 << 20, 10, ""},
	} {
		var got bytes.Buffer
		s.must("download "+row.name, s.conn.StorageVolDownload(s.ctx, v, &got, row.offset, row.length))
		if got.String() != row.want {
			s.Errorf("download %s: got %q, want %q", row.name, got.String(), row.want)
		}
	}
	var all bytes.Buffer
	s.must("download all", s.conn.StorageVolDownload(s.ctx, v, &all, 0, 0))
	if all.Len() != 1<<20 || !bytes.Equal(all.Bytes()[1000:1000+len(text)], text) {
		s.Errorf("download all: got %d bytes", all.Len())
	}

	broken := errors.New("the source broke")
	src := io.MultiReader(bytes.NewReader(make([]byte, 5000)), iotest.ErrReader(broken))
	if err := s.conn.StorageVolUpload(s.ctx, v, src, 0, 1<<20); !errors.Is(err, broken) {
		s.Errorf("upload from a source that fails: got %v, want its error", err)
	}
	_, err := s.conn.ConnectGetLibVersion(s.ctx)
	s.want("the connection afterwards", err, 0)
}

func testSmallPool(s *suite) {
	if s.SmallPool == "" {
		s.Skip("no small pool given")
	}
	pool, err := s.conn.StoragePoolLookupByName(s.ctx, s.SmallPool)
	s.must("look up", err)
	create := func(name, format, extra string) (libvirt.StorageVol, error) {
		return s.conn.StorageVolCreateXML(s.ctx, pool, volumeXML(s.name(name), format, 200<<20, extra), 0)
	}
	const sparse = "<allocation>0</allocation>"
	_, err = create("raw", "raw", "")
	s.want("raw, allocated", err, libvirt.ErrSystemError)
	_, err = s.conn.StorageVolGetXMLDesc(s.ctx, libvirt.StorageVol{Pool: s.SmallPool, Name: s.name("raw")})
	s.want("what is left of it", err, libvirt.ErrNoStorageVol)
	_, err = create("qcow2", "qcow2", "")
	s.want("qcow2", err, 0)
	v, err := create("sparse", "raw", sparse)
	s.want("raw, sparse", err, 0)

	s.want("upload of more than there is room for",
		s.conn.StorageVolUpload(s.ctx, v, io.LimitReader(zeros{}, 100<<20), 0, 200<<20), libvirt.ErrSystemError)
	if x := s.describe(v); x.Allocation.Value == 0 {
		s.Error("what was written of it is gone")
	}
	// libvirt looks at the pool after an upload on a thread of its own.
	var available uint64
	if !s.eventually(func() bool {
		var err error
		_, _, _, available, err = s.conn.StoragePoolGetInfo(s.ctx, pool)
		s.must("info", err)
		return available == 0
	}) {
		s.Errorf("room left: got %d, want 0", available)
	}
	_, err = create("qcow2-full", "qcow2", "")
	s.want("qcow2 in a full pool", err, libvirt.ErrInternalError)
	_, err = create("sparse-full", "raw", sparse)
	s.want("raw, sparse, in a full pool", err, 0)
	s.want("delete", s.conn.StorageVolDelete(s.ctx, v), 0)
}

// testPoolFigures: libvirt counts what it makes and deletes, and looks only
// after an upload or when told to.
func testPoolFigures(s *suite) {
	if s.SmallPool == "" {
		s.Skip("no small pool given")
	}
	pool, err := s.conn.StoragePoolLookupByName(s.ctx, s.SmallPool)
	s.must("look up", err)
	room := func() uint64 {
		state, capacity, allocation, available, err := s.conn.StoragePoolGetInfo(s.ctx, pool)
		s.must("info", err)
		if state != uint8(libvirt.StoragePoolRunning) || capacity != allocation+available {
			s.Errorf("info: got state %d, capacity %d, allocation %d, available %d", state, capacity, allocation, available)
		}
		return available
	}
	s.must("refresh", s.conn.StoragePoolRefresh(s.ctx, pool))
	before := room()
	a, err := s.conn.StorageVolCreateXML(s.ctx, pool, volumeXML(s.name("a"), "raw", 1<<20, ""), 0)
	s.must("create", err)
	b, err := s.conn.StorageVolCreateXML(s.ctx, pool, volumeXML(s.name("b"), "raw", 30<<20, "<allocation>0</allocation>"), 0)
	s.must("create", err)
	if got, want := before-room(), uint64(1<<20); got != want {
		s.Errorf("taken by 1 MiB allocated and 30 MiB sparse: got %d, want %d", got, want)
	}
	s.must("upload", s.conn.StorageVolUpload(s.ctx, b, io.LimitReader(zeros{}, 20<<20), 0, 20<<20))
	var taken uint64
	const want = 21 << 20
	if !s.eventually(func() bool { taken = before - room(); return taken == want }) {
		s.Errorf("taken after 20 MiB were uploaded: got %d, want %d", taken, want)
	}
	s.must("delete", s.conn.StorageVolDelete(s.ctx, a))
	s.must("delete", s.conn.StorageVolDelete(s.ctx, b))
	if got := room(); got != before {
		s.Errorf("room after both were deleted: got %d, want %d", got, before)
	}
}

// zeros is an endless source.
type zeros struct{}

// Read gives zeros.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
