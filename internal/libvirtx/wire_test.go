package libvirtx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// procedures are the protocol's numbers of the seam's methods.
var procedures = map[string]uint32{
	"ConnectGetLibVersion": 157, "ConnectGetHostname": 59, "ConnectGetCapabilities": 7,
	"ConnectGetDomainCapabilities": 342, "NodeGetFreeMemory": 102, "ConnectGetAllDomainStats": 344,
	"DomainLookupByName": 23, "DomainGetXMLDesc": 14, "DomainGetState": 212, "DomainIsPersistent": 151,
	"DomainInterfaceAddresses": 353, "DomainDefineXML": 350, "DomainCreate": 196, "DomainDestroy": 12,
	"DomainUndefine": 231, "DomainSetAutostart": 29, "DomainSetMetadata": 264,
	"NetworkLookupByName": 46, "NetworkIsActive": 152, "NetworkGetDhcpLeases": 341, "InterfaceLookupByName": 128,
	"StoragePoolLookupByName": 84, "StoragePoolGetInfo": 87, "StoragePoolGetXMLDesc": 88, "StoragePoolRefresh": 83, "StoragePoolListAllVolumes": 282,
	"StorageVolCreateXML": 93, "StorageVolGetXMLDesc": 99, "StorageVolGetPath": 100,
	"StorageVolDelete": 94, "StorageVolUpload": 208, "StorageVolDownload": 209,
}

func connectLocal(t *testing.T, f *fakeLibvirtd) Conn {
	t.Helper()
	conn, err := NewLocalConnector(LocalOptions{Socket: f.socket}).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// TestWire_everyMethodCallsItsProcedure, and hands libvirt's error on as it came.
func TestWire_everyMethodCallsItsProcedure(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	conn := reflect.ValueOf(connectLocal(t, f))
	f.callError.Store(uint32(libvirt.ErrNoDomain))
	for m := range reflect.TypeFor[Backend]().Methods() {
		t.Run(m.Name, func(t *testing.T) {
			method := conn.MethodByName(m.Name)
			args := []reflect.Value{reflect.ValueOf(t.Context())}
			for j := 1; j < method.Type().NumIn(); j++ {
				args = append(args, reflect.Zero(method.Type().In(j)))
			}
			out := method.Call(args)
			err, _ := reflect.TypeAssert[error](out[len(out)-1])
			if want := (libvirt.Error{Code: uint32(libvirt.ErrNoDomain), Message: "no"}); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if got, want := f.procs[len(f.procs)-1], procedures[m.Name]; got != want {
				t.Errorf("called procedure %d, want %d", got, want)
			}
		})
	}
}

func TestWire_upload(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*chunkBytes/16)
	broken := errors.New("reset by the mirror")
	for name, row := range map[string]struct {
		src    io.Reader
		refuse libvirt.ErrorNumber
		want   error
	}{
		"whole":                       {bytes.NewReader(content), 0, nil},
		"refused after the last byte": {bytes.NewReader(content), libvirt.ErrSystemError, libvirt.Error{Code: 38, Message: "no"}},
		"source fails":                {io.MultiReader(bytes.NewReader(content[:chunkBytes]), iotest.ErrReader(broken)), 0, broken},
		"source too short":            {bytes.NewReader(content[:chunkBytes+1]), 0, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			f := serveLibvirt(t, &fakeLibvirtd{})
			l := newTestLink(t, LinkOptions{Connector: NewLocalConnector(LocalOptions{Socket: f.socket})})
			f.uploadError.Store(uint32(row.refuse))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := l.Backend().StorageVolUpload(ctx, libvirt.StorageVol{}, row.src, 0, uint64(len(content)))
			if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
				t.Errorf("got %v, want %v", err, row.want)
			}
			// The connection still works for the next request.
			if err := l.Backend().StorageVolDelete(ctx, libvirt.StorageVol{}); err != nil {
				t.Errorf("the next call: %v", err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.conns) != 1 {
				t.Errorf("%d connections, want 1", len(f.conns))
			}
			if row.want == nil && !bytes.Equal(f.uploaded, content) {
				t.Errorf("%d bytes arrived that differ from the %d sent", len(f.uploaded), len(content))
			}
		})
	}
}
