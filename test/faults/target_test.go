//go:build faults

package faults_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// quick are limits under which a fault shows soon.
var quick = libvirtx.Limits{Dial: 3 * time.Second, Call: 3 * time.Second, Stall: 3 * time.Second}

// target is a lab host and our way to it, with files of our own to spoil.
type target struct {
	labHost
	// key and knownHosts are copies of the lab's, to be spoilt.
	key, knownHosts string

	proxy *proxy
	link  *libvirtx.Link
	host  *libvirtx.Host
	// stranger takes places at the host that are none of ours.
	stranger io.Closer
}

// newTarget makes the way to a lab host, through a proxy if proxied.
func newTarget(t *testing.T, lab labHost, limits libvirtx.Limits, proxied bool) *target {
	t.Helper()
	x := &target{labHost: lab}
	x.T = t
	addr := lab.addr
	if proxied {
		x.proxy = newProxy(t, lab.addr)
		addr = x.proxy.addr()
	}
	dir := t.TempDir()
	x.key = copyOf(t, lab.key, filepath.Join(dir, "key"), nil)
	x.knownHosts = copyOf(t, lab.knownHosts, filepath.Join(dir, "known_hosts"), func(s string) string {
		return strings.ReplaceAll(s, bracketed(t, lab.addr), bracketed(t, addr))
	})
	connector, err := libvirtx.NewSSHConnector(libvirtx.SSHOptions{SSHEndpoint: libvirtx.SSHEndpoint{
		Addr: addr, User: lab.user, KeyFile: x.key, KnownHostsFile: x.knownHosts,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if x.link, err = libvirtx.NewLink(libvirtx.LinkOptions{Host: lab.name, Connector: connector, Limits: limits}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.link.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	x.host, err = libvirtx.NewHost(libvirtx.HostOptions{
		Name: lab.name, Link: x.link, Owner: "faults", Pool: "default", Bridge: "br0", DomainType: "qemu",
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func copyOf(t *testing.T, from, to string, change func(string) string) string {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		content = []byte(change(string(content)))
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// bracketed is how known_hosts writes an address.
func bracketed(t *testing.T, addr string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return "[" + host + "]:" + port
}

// read is a call in the lane of cheap reads.
func read(ctx context.Context, x *target) error {
	_, err := x.host.List(ctx)
	return err
}

// useBothLanes makes a call in each lane that keeps its session.
func useBothLanes(ctx context.Context, x *target) error {
	if err := read(ctx, x); err != nil {
		return err
	}
	return x.host.DeleteVolume(ctx, "kvm2.faults.absent.00000000.root.qcow2")
}

// opening counts the bytes that an SSH server sends until libvirt is open.
func (x *target) opening() int64 {
	x.Helper()
	before := x.proxy.carried.Load()
	nothing := func(context.Context, libvirtx.Backend) error { return nil }
	if err := x.link.Fresh(x.Context(), nothing); err != nil {
		x.Fatal(err)
	}
	return x.proxy.carried.Load() - before
}

// uploadName is a volume that is made anew for each upload.
const uploadName = "kvm2.faults.upload.00000000.root.qcow2"

// endless is an upload's source that tells when it has been read for a while.
type endless struct {
	read int
	soon chan struct{}
}

// soonBytes is more than what fits into all buffers on the way.
const soonBytes = 64 << 20

func (e *endless) Read(p []byte) (int, error) {
	if before := e.read; before < soonBytes && before+len(p) >= soonBytes {
		close(e.soon)
	}
	e.read += len(p)
	return len(p), nil
}

// uploading starts an upload that is longer than any test, and returns once it
// is under way. Its outcome comes through the channel.
func uploading(x *target) <-chan error {
	x.Helper()
	if err := x.host.DeleteVolume(x.Context(), uploadName); err != nil {
		x.Fatal(err)
	}
	_, err := x.host.CreateVolume(x.Context(), instance.NewVolume{Name: uploadName, Format: "raw", CapacityBytes: 1 << 20})
	if err != nil {
		x.Fatal(err)
	}
	src := &endless{soon: make(chan struct{})}
	outcome := make(chan error, 1)
	go func() { outcome <- x.host.Upload(x.Context(), uploadName, io.Reader(src), 1<<40) }()
	select {
	case <-src.soon:
	case err := <-outcome:
		x.Fatalf("upload: %v", err)
	}
	return outcome
}
