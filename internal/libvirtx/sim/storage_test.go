package sim_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func TestVolume_seedCanBeReadBack(t *testing.T) {
	r := newRig(t, sim.Options{})
	seed := make([]byte, 300<<10)
	_, _ = rand.Read(seed)
	v := r.volume("seed.iso", "raw", uint64(len(seed)), "")
	r.must(r.conn.StorageVolUpload(t.Context(), v, bytes.NewReader(seed), 0, uint64(len(seed))))
	got, ok := r.host.VolumeBytes("seed.iso")
	if !ok || !bytes.Equal(got, seed) {
		t.Errorf("bytes of a small volume: got %d of them, kept %t", len(got), ok)
	}
}

func TestVolume_largeKeepsChecksumOnly(t *testing.T) {
	r := newRig(t, sim.Options{})
	image := make([]byte, 5<<20+123)
	_, _ = rand.Read(image)
	sum := sha256.Sum256(image)
	for _, format := range []string{"raw", "qcow2"} {
		v := r.volume(format, format, uint64(len(image)), "<allocation>0</allocation>")
		r.must(r.conn.StorageVolUpload(t.Context(), v, bytes.NewReader(image), 0, uint64(len(image))))
		got, _ := r.host.Volume(format)
		if want := hex.EncodeToString(sum[:]); got.SHA256 != want || got.Physical != uint64(len(image)) {
			t.Errorf("%s: got %+v, want checksum %s", format, got, want)
		}
		if _, ok := r.host.VolumeBytes(format); ok {
			t.Errorf("%s: all bytes were kept", format)
		}
		var head bytes.Buffer
		r.must(r.conn.StorageVolDownload(t.Context(), v, &head, 0, 64<<10))
		if !bytes.Equal(head.Bytes(), image[:64<<10]) {
			t.Errorf("%s: the first 64 KiB differ", format)
		}
	}
}

func TestVolume_uploadInParts(t *testing.T) {
	r := newRig(t, sim.Options{})
	v := r.volume("a", "raw", 200<<10, "<allocation>0</allocation>")
	all := make([]byte, 200<<10)
	_, _ = rand.Read(all)
	half := uint64(len(all) / 2)
	r.must(r.conn.StorageVolUpload(t.Context(), v, bytes.NewReader(all[half:]), half, half))
	r.must(r.conn.StorageVolUpload(t.Context(), v, bytes.NewReader(all[:half]), 0, half))
	if got, _ := r.host.VolumeBytes("a"); !bytes.Equal(got, all) {
		t.Error("two parts do not make the whole")
	}
	if got, _ := r.host.Volume("a"); got.Allocation != 200<<10 {
		t.Errorf("allocation: got %d", got.Allocation)
	}
}

func TestVolume_moreThanLengthIsRefused(t *testing.T) {
	r := newRig(t, sim.Options{})
	v := r.volume("a", "raw", 10, "")
	err := r.conn.StorageVolUpload(t.Context(), v, strings.NewReader("0123456789abc"), 0, 10)
	wantCode(t, "a source longer than was said", err, libvirt.ErrSystemError)
	if got, _ := r.host.VolumeBytes("a"); string(got) != "0123456789" {
		t.Errorf("got %q", got)
	}
}

func TestVolume_overUnscannedFile(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.host.AddFile("a", []byte("somebody's"))
	for _, format := range []string{"raw", "qcow2"} {
		_, err := r.conn.StorageVolCreateXML(t.Context(), r.pool, volumeXML("a", format, 1, ""), 0)
		wantCode(t, format+" over a file that libvirt has not seen", err, libvirt.ErrOperationInvalid)
	}
	_, err := r.conn.StorageVolGetXMLDesc(t.Context(), libvirt.StorageVol{Pool: r.pool.Name, Name: "a"})
	wantCode(t, "its look-up", err, libvirt.ErrNoStorageVol)
	r.must(r.conn.StoragePoolRefresh(t.Context(), r.pool))
	_, err = r.conn.StorageVolCreateXML(t.Context(), r.pool, volumeXML("a", "raw", 1, ""), 0)
	wantCode(t, "after a refresh", err, libvirt.ErrStorageVolExist)
	all, err := r.conn.StoragePoolListAllVolumes(t.Context(), r.pool)
	r.must(err)
	if diff := cmp.Diff([]libvirt.StorageVol{{Pool: "default", Name: "a", Key: poolDir + "a"}}, all); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

// A marker is a tiny overlay: its pointer can be read from its XML.
func TestVolume_markerPointsAtItsBase(t *testing.T) {
	now := time.Unix(1_800_000_000, 5)
	r := newRig(t, sim.Options{Now: func() time.Time { return now }})
	r.volume("base", "qcow2", 1<<30, "")
	marker := strings.Replace(volumeXML("marker", "qcow2", 0,
		"<backingStore><path>"+poolDir+"base</path><format type='qcow2'/></backingStore>"),
		"<format type='qcow2'/></target>", "<format type='qcow2'/><compat>1.1</compat></target>", 1)
	v, err := r.conn.StorageVolCreateXML(t.Context(), r.pool, marker, 0)
	r.must(err)
	doc, err := r.conn.StorageVolGetXMLDesc(t.Context(), v)
	r.must(err)
	var got libvirtxml.StorageVolume
	r.must(got.Unmarshal(doc))
	if got.BackingStore == nil || got.BackingStore.Path != poolDir+"base" || got.BackingStore.Format.Type != "qcow2" {
		t.Errorf("backing store: got %+v", got.BackingStore)
	}
	if got.Target.Timestamps.Mtime != "1800000000.000000005" || got.Target.Compat != "1.1" || got.Capacity.Value != 1<<30 {
		t.Errorf("got %s", doc)
	}
	later := now.Add(time.Hour)
	r.must(r.host.SetVolumeTime("marker", later))
	doc, err = r.conn.StorageVolGetXMLDesc(t.Context(), v)
	r.must(err)
	if !strings.Contains(doc, "<mtime>1800003600.000000005</mtime>") {
		t.Errorf("after SetVolumeTime: got %s", doc)
	}
}

func TestVolume_removedBeforeUploadEnds(t *testing.T) {
	r := newRig(t, sim.Options{})
	v := r.volume("a", "raw", 10, "")
	src := readerFunc(func(p []byte) (int, error) {
		_ = r.host.RemoveVolume("a")
		return strings.NewReader("0123456789").Read(p)
	})
	r.must(r.conn.StorageVolUpload(t.Context(), v, &limited{src: src, left: 1}, 0, 10))
	if _, ok := r.host.Volume("a"); ok {
		t.Error("an upload brought a deleted volume back")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// limited ends after a number of reads.
type limited struct {
	src  readerFunc
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left == 0 {
		return strings.NewReader("").Read(p)
	}
	l.left--
	return l.src(p)
}

func TestPool_inactive(t *testing.T) {
	r := newRig(t, sim.Options{})
	ctx := t.Context()
	v := r.volume("a", "raw", 10, "")
	r.host.SetPoolActive(false)
	state, capacity, _, _, err := r.conn.StoragePoolGetInfo(ctx, r.pool)
	wantCode(t, "info", err, 0)
	if state != uint8(libvirt.StoragePoolInactive) || capacity != 0 {
		t.Errorf("info: got state %d, capacity %d", state, capacity)
	}
	_, err = r.conn.StoragePoolLookupByName(ctx, "default")
	wantCode(t, "lookup of the pool", err, 0)
	_, err = r.conn.StorageVolGetXMLDesc(ctx, libvirt.StorageVol{Pool: r.pool.Name, Name: "a"})
	wantCode(t, "lookup of a volume", err, libvirt.ErrOperationInvalid)
	_, err = r.conn.StoragePoolListAllVolumes(ctx, r.pool)
	wantCode(t, "list", err, libvirt.ErrOperationInvalid)
	_, err = r.conn.StorageVolCreateXML(ctx, r.pool, volumeXML("b", "raw", 10, ""), 0)
	wantCode(t, "create", err, libvirt.ErrOperationInvalid)
	_, err = r.conn.StorageVolGetPath(ctx, v)
	wantCode(t, "path", err, libvirt.ErrOperationInvalid)
	_, err = r.conn.StorageVolGetXMLDesc(ctx, v)
	wantCode(t, "XML", err, libvirt.ErrOperationInvalid)
	wantCode(t, "delete", r.conn.StorageVolDelete(ctx, v), libvirt.ErrOperationInvalid)
	wantCode(t, "refresh", r.conn.StoragePoolRefresh(ctx, r.pool), libvirt.ErrOperationInvalid)
	r.host.SetPoolActive(true)
	_, err = r.conn.StorageVolGetPath(ctx, v)
	wantCode(t, "path once it is back", err, 0)
	r.host.RemovePool()
	wantCode(t, "refresh of a pool that is gone", r.conn.StoragePoolRefresh(ctx, r.pool), libvirt.ErrNoStoragePool)
	wantCode(t, "delete in a pool that is gone", r.conn.StorageVolDelete(ctx, v), libvirt.ErrNoStoragePool)
}

func TestPool_figuresAreOld(t *testing.T) {
	r := newRig(t, sim.Options{PoolCapacityBytes: 64 << 20})
	room := func() uint64 {
		_, _, _, available, err := r.conn.StoragePoolGetInfo(t.Context(), r.pool)
		r.must(err)
		return available
	}
	r.host.FillPool(10 << 20)
	if got, want := room(), uint64(64<<20); got != want {
		t.Errorf("before a refresh: got %d, want %d", got, want)
	}
	r.must(r.conn.StoragePoolRefresh(t.Context(), r.pool))
	if got, want := room(), uint64(10<<20); got != want {
		t.Errorf("after a refresh: got %d, want %d", got, want)
	}
	r.host.FillPool(1 << 40)
	r.must(r.conn.StoragePoolRefresh(t.Context(), r.pool))
	if got, want := room(), uint64(64<<20); got != want {
		t.Errorf("after the room was given back: got %d, want %d", got, want)
	}
}

func TestPool_fillsUnderAnUpload(t *testing.T) {
	r := newRig(t, sim.Options{PoolCapacityBytes: 64 << 20})
	v := r.volume("a", "qcow2", 1<<30, "")
	r.host.FillPool(2 << 20)
	err := r.conn.StorageVolUpload(t.Context(), v, bytes.NewReader(make([]byte, 8<<20)), 0, 8<<20)
	wantCode(t, "upload", err, libvirt.ErrSystemError)
	if got, ok := r.host.Volume("a"); !ok || got.Physical < 2<<20 || got.Physical > 3<<20 {
		t.Errorf("what is left of it: got %+v", got)
	}
	r.host.FillPool(32 << 20)
	r.must(r.conn.StorageVolUpload(t.Context(), v, bytes.NewReader(make([]byte, 8<<20)), 0, 8<<20))
}
