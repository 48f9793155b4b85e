package libvirtx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

const rootVolume = "kvm2.kvm2d.proxy-1.12345678.root.qcow2"

func rawVolume(name string, bytes int64) instance.NewVolume {
	return instance.NewVolume{Name: name, Format: "raw", CapacityBytes: bytes}
}

func TestVolumes_createReadDelete(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	ctx := t.Context()
	base := makeVolume(t, h, rawVolume("kvm2-base.debian.raw", 1<<20))
	overlay := instance.NewVolume{
		Name: rootVolume, Format: "qcow2", CapacityBytes: 10 << 30, BackingPath: base, BackingFormat: "raw",
	}
	made, err := h.CreateVolume(ctx, overlay)
	if err != nil {
		t.Fatal(err)
	}
	read, err := h.Volume(ctx, rootVolume)
	if err != nil {
		t.Fatal(err)
	}
	if read.Path != made.Path || read.Format != "qcow2" || read.CapacityBytes != 10<<30 || read.BackingPath != base {
		t.Errorf("got %+v, want what was made: %+v", read, made)
	}
	_, err = h.CreateVolume(ctx, overlay)
	if !errors.Is(err, instance.ErrVolumeExists) {
		t.Errorf("second: got %v, want ErrVolumeExists", err)
	}
	s.AddVolume("kvm2.kvm2d.proxy-10.12345678.root.qcow2", []byte("x"))
	found, err := h.Volumes(ctx, "kvm2.kvm2d.proxy-1.")
	if err != nil || len(found) != 1 || found[0].Name != rootVolume {
		t.Errorf("got %+v, %v, want %s alone", found, err, rootVolume)
	}
	for range 2 {
		if err := h.DeleteVolume(ctx, rootVolume); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	_, err = h.Volume(ctx, rootVolume)
	if !errors.Is(err, instance.ErrNoVolume) || errors.Is(err, instance.NotFound) {
		t.Errorf("got %v, want ErrNoVolume, and never NotFound", err)
	}
}

func TestVolumes_vanishedIsLeftOut(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	s.AddVolume("a.1", []byte("x"))
	s.AddVolume("a.2", []byte("x"))
	s.Inject(sim.Fault{Method: "StorageVolGetXMLDesc", Object: "a.1", Err: code(libvirt.ErrNoStorageVol)})
	found, err := h.Volumes(t.Context(), "a.")
	if err != nil || len(found) != 1 || found[0].Name != "a.2" {
		t.Errorf("got %+v, %v, want a.2 alone", found, err)
	}
	s.FailMethod("StorageVolGetXMLDesc", code(libvirt.ErrSystemError), 1)
	_, err = h.Volumes(t.Context(), "a.")
	wantReason(t, err, instance.ReasonLibvirtError)
}

func TestVolumes_errorsNameTheInstance(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	s.FailMethod("StorageVolGetXMLDesc", code(libvirt.ErrSystemError), 1)
	_, err := h.Volume(t.Context(), rootVolume)
	var e *instance.Error
	if !errors.As(err, &e) || e.Instance != "proxy-1" || !strings.Contains(err.Error(), rootVolume) {
		t.Errorf("got %v, want instance and volume named", err)
	}
}

func TestVolumes_poolStoppedOrGone(t *testing.T) {
	calls := func(ctx context.Context, h instance.HostVolumes) map[string]error {
		out := map[string]error{}
		_, out["list"] = h.Volumes(ctx, "")
		_, out["read"] = h.Volume(ctx, rootVolume)
		_, out["create"] = h.CreateVolume(ctx, rawVolume(rootVolume, 1<<20))
		out["upload"] = h.Upload(ctx, rootVolume, strings.NewReader("x"), 1)
		out["delete"] = h.DeleteVolume(ctx, rootVolume)
		_, out["space"] = h.CheckSpace(ctx, 1)
		_, out["content"] = h.ReadVolume(ctx, rootVolume, 1)
		return out
	}
	for _, tc := range []struct {
		name   string
		change func(*sim.Host)
		want   instance.Reason
	}{
		{"stopped", func(s *sim.Host) { s.SetPoolActive(false) }, instance.ReasonPoolNotActive},
		{"gone", (*sim.Host).RemovePool, instance.ReasonPoolNotFound},
	} {
		for _, warm := range []bool{false, true} {
			h, s := newHost(t, sim.Options{})
			if warm {
				makeVolume(t, h, rawVolume(rootVolume, 1<<20))
			}
			tc.change(s)
			for call, err := range calls(t.Context(), h) {
				t.Run(fmt.Sprintf("%s, warm %v, %s", tc.name, warm, call), func(t *testing.T) {
					wantReason(t, err, tc.want)
				})
			}
		}
	}
}

func TestCreateVolume_poolMadeAnewIsFound(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	makeVolume(t, h, rawVolume("a", 1))
	s.RemovePool()
	s.AddPool("default", "/srv/anew", 1<<30)
	s.FailMethod("StorageVolCreateXML", code(libvirt.ErrNoStoragePool), 1)
	if got := makeVolume(t, h, rawVolume("b", 1)); got != "/srv/anew/b" {
		t.Errorf("got %s, want it in the new pool", got)
	}
}

// keyless is a connection to a pool whose volumes have keys that are no paths.
type keyless struct{ libvirtx.Conn }

func (k keyless) StorageVolCreateXML(
	ctx context.Context, pool libvirt.StoragePool, xml string, flags libvirt.StorageVolCreateFlags,
) (libvirt.StorageVol, error) {
	v, err := k.Conn.StorageVolCreateXML(ctx, pool, xml, flags)
	v.Key = "Fy0nvA-uoqc-key"
	return v, err
}

type keylessConnector struct{ *sim.Host }

func (k keylessConnector) Connect(ctx context.Context) (libvirtx.Conn, error) {
	conn, err := k.Host.Connect(ctx)
	return keyless{conn}, err
}

func TestCreateVolume_pathIsResolvedByLibvirt(t *testing.T) {
	const want = "/var/lib/libvirt/images/" + rootVolume
	h, s := newHost(t, sim.Options{})
	if got := makeVolume(t, h, rawVolume(rootVolume, 1<<20)); got != want || s.Calls("StorageVolGetPath") != 0 {
		t.Errorf("got %s after %d calls, want %s from the answer itself", got, s.Calls("StorageVolGetPath"), want)
	}
	h, _ = newHost(t, sim.Options{}, func(o *libvirtx.HostOptions) {
		link, err := libvirtx.NewLink(libvirtx.LinkOptions{Host: "beelink", Connector: keylessConnector{sim.NewHost(sim.Options{})}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = link.Close() })
		o.Link = link
	})
	if got := makeVolume(t, h, rawVolume(rootVolume, 1<<20)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCreateVolume_fileThatLibvirtHasNotScannedExists(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	s.AddFile(rootVolume, []byte("left by somebody"))
	_, err := h.CreateVolume(t.Context(), rawVolume(rootVolume, 1<<20))
	if !errors.Is(err, instance.ErrVolumeExists) {
		t.Errorf("got %v, want ErrVolumeExists", err)
	}
}

func TestCreateVolume_busyPoolIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{})
		busyUntil := time.Now().Add(30 * time.Second)
		s.OnCall(func(c sim.Call) error {
			if c.Method == "StorageVolCreateXML" && time.Now().Before(busyUntil) {
				return code(libvirt.ErrInternalError)
			}
			return nil
		})
		if _, err := h.CreateVolume(t.Context(), rawVolume(rootVolume, 1<<20)); err != nil {
			t.Errorf("busy for 30s: %v", err)
		}
		s.FailMethod("StorageVolCreateXML", code(libvirt.ErrInternalError), -1)
		began := time.Now()
		_, err := h.CreateVolume(t.Context(), rawVolume("other", 1<<20))
		wantReason(t, err, instance.ReasonLibvirtError)
		if took := time.Since(began); took < 30*time.Second || took > time.Minute {
			t.Errorf("gave up after %s, want between 30s and a minute", took)
		}
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = h.CreateVolume(ctx, rawVolume("other", 1<<20))
		wantReason(t, err, instance.ReasonTimeout)
		if took := time.Since(began); took != time.Second {
			t.Errorf("cancelled after %s, want 1s", took)
		}
	})
}

func TestCreateVolume_twentyAtOnceSucceed(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	s.SlowMethod("StorageVolCreateXML", 2*time.Millisecond)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := h.CheckSpace(t.Context(), 1<<20); err != nil {
				t.Errorf("space: %v", err)
			}
			if _, err := h.CreateVolume(t.Context(), rawVolume(fmt.Sprintf("v%d", i), 1<<20)); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestCreateVolume_whyItFailed(t *testing.T) {
	for _, tc := range []struct {
		name string
		fill bool
		err  error
		want instance.Reason
	}{
		{"system error, pool full", true, code(libvirt.ErrSystemError), instance.ReasonPoolFull},
		{"internal error, pool full", true, code(libvirt.ErrInternalError), instance.ReasonPoolFull},
		{"system error, room enough", false, code(libvirt.ErrSystemError), instance.ReasonLibvirtError},
		{"impossible for no reason we know", false, code(libvirt.ErrOperationInvalid), instance.ReasonLibvirtError},
		{"wrong argument", true, code(libvirt.ErrInvalidArg), instance.ReasonRefusedByLibvirt},
		{"connection lost", true, libvirt.ErrInterrupted, instance.ReasonUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, s := newHost(t, sim.Options{})
			if tc.fill {
				s.FillPool(0)
			}
			s.FailMethod("StorageVolCreateXML", tc.err, 1)
			_, err := h.CreateVolume(t.Context(), rawVolume(rootVolume, 1<<20))
			wantReason(t, err, tc.want)
		})
	}
}

func TestUpload(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, tc := range []struct {
		name   string
		src    io.Reader
		length int64
		leave  uint64
		want   instance.Reason // "" is success
	}{
		{"whole", bytes.NewReader(content), int64(len(content)), 1 << 30, ""},
		{"source longer than told", bytes.NewReader(content), 4096, 1 << 30, ""},
		{"source too short", bytes.NewReader(content[:100]), 4096, 1 << 30, instance.ReasonDownloadFailed},
		{"source fails", io.MultiReader(bytes.NewReader(content[:100]), failing{}), 4096, 1 << 30, instance.ReasonChecksumMismatch},
		{"pool full", bytes.NewReader(content), int64(len(content)), 64 << 10, instance.ReasonPoolFull},
		{"nothing", bytes.NewReader(nil), 0, 1 << 30, instance.ReasonInternal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, s := newHost(t, sim.Options{})
			makeVolume(t, h, rawVolume(rootVolume, int64(len(content))))
			s.FillPool(tc.leave)
			err := h.Upload(t.Context(), rootVolume, tc.src, tc.length)
			if tc.want != "" {
				wantReasonOnly(t, err, tc.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, _ := s.VolumeBytes(rootVolume)
			want := make([]byte, len(content))
			copy(want, content[:tc.length])
			if !bytes.Equal(got, want) {
				t.Errorf("got %d other bytes, want the first %d of the source", len(got), tc.length)
			}
		})
	}
}

// failing is a source whose error has a reason of its own.
type failing struct{}

func (failing) Read([]byte) (int, error) {
	return 0, &instance.Error{Reason: instance.ReasonChecksumMismatch, Detail: "not what was promised"}
}

// wantReasonOnly is for errors that may hold an error of their own making.
func wantReasonOnly(t *testing.T, err error, want instance.Reason) {
	t.Helper()
	if err == nil || instance.ReasonOf(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestUpload_fullAtTheLastByte(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	makeVolume(t, h, rawVolume(rootVolume, 1<<20))
	s.FillPool(0)
	s.FailMethod("StorageVolUpload", code(libvirt.ErrSystemError), 1)
	err := h.Upload(t.Context(), rootVolume, bytes.NewReader(make([]byte, 1<<20)), 1<<20)
	wantReason(t, err, instance.ReasonPoolFull)
}

func TestUpload_systemErrorWithRoomIsLibvirts(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	makeVolume(t, h, rawVolume(rootVolume, 1<<20))
	s.FailMethod("StorageVolUpload", code(libvirt.ErrSystemError), 1)
	err := h.Upload(t.Context(), rootVolume, bytes.NewReader(make([]byte, 1<<20)), 1<<20)
	wantReason(t, err, instance.ReasonLibvirtError)
}

func TestDeleteVolume_findsWhatLibvirtHasNotScanned(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	const console = "kvm2.kvm2d.proxy-1.12345678.console.log"
	s.AddFile(console, []byte("hello"))
	if err := h.DeleteVolume(t.Context(), console); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Volume(console); ok {
		t.Error("the file is still there")
	}
}

func TestDeleteVolume_waitsForThePoolsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{})
		s.AddFile("log", []byte("hello"))
		s.FailMethod("StoragePoolRefresh", code(libvirt.ErrInternalError), 5)
		if err := h.DeleteVolume(t.Context(), "log"); err != nil {
			t.Error(err)
		}
		s.FailMethod("StoragePoolRefresh", code(libvirt.ErrSystemError), 1)
		wantReason(t, h.DeleteVolume(t.Context(), "log"), instance.ReasonLibvirtError)
		s.FailMethod("StorageVolDelete", code(libvirt.ErrSystemError), 1)
		wantReason(t, h.DeleteVolume(t.Context(), "log"), instance.ReasonLibvirtError)
	})
}

func TestReadVolume_tail(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	content := []byte("first line\nlast line\n")
	s.AddFile("log", content)
	for limit, want := range map[int64]string{0: "", 10: "last line\n", 1 << 20: string(content), -1: ""} {
		got, err := h.ReadVolume(t.Context(), "log", limit)
		if err != nil || string(got) != want {
			t.Errorf("last %d bytes: got %q, %v, want %q", limit, got, err, want)
		}
	}
	if got := s.Calls("StorageVolDownload"); got != 2 {
		t.Errorf("got %d downloads, want none for no bytes", got)
	}
	s.AddFile("log", slices.Concat(content, []byte("newer\n")))
	if got, err := h.ReadVolume(t.Context(), "log", 6); err != nil || string(got) != "newer\n" {
		t.Errorf("grown: got %q, %v, want newer", got, err)
	}
	// A disk's file ends long before the disk does.
	makeVolume(t, h, instance.NewVolume{Name: "disk", Format: "qcow2", CapacityBytes: 10 << 30})
	held, _ := s.VolumeBytes("disk")
	if got, err := h.ReadVolume(t.Context(), "disk", 1<<20); err != nil || !bytes.Equal(got, held) || len(held) == 0 {
		t.Errorf("a disk: got %d bytes, %v, want the %d of its file", len(got), err, len(held))
	}
	if _, err := h.ReadVolume(t.Context(), "absent", 1); !errors.Is(err, instance.ErrNoVolume) {
		t.Errorf("got %v, want ErrNoVolume", err)
	}
	s.FailMethod("StorageVolDownload", code(libvirt.ErrSystemError), 1)
	_, err := h.ReadVolume(t.Context(), "log", 6)
	wantReason(t, err, instance.ReasonLibvirtError)
}
