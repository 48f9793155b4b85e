package libvirtx

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// silentProxy forwards TCP until it is told to keep everything to itself.
type silentProxy struct {
	addr   string
	silent atomic.Bool
}

func serveProxy(t *testing.T, to string) *silentProxy {
	t.Helper()
	ln := listen(t, "tcp", "127.0.0.1:0")
	p := &silentProxy{addr: ln.Addr().String()}
	var work sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	pass := func(dst, src net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if err != nil {
				_ = dst.Close()
				return
			}
			if p.silent.Load() {
				continue
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	work.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(t.Context(), "tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, near, far)
			mu.Unlock()
			work.Go(func() { pass(near, far) })
			work.Go(func() { pass(far, near) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return p
}

func TestSSH_keepaliveFindsADeadPeer(t *testing.T) {
	if worst := defaultKeepalive.every + defaultKeepalive.wait; worst > 45*time.Second {
		t.Errorf("a dead peer is found within %v, want 45s", worst)
	}
	f := serveLibvirt(t, &fakeLibvirtd{})
	f.muteAfterOpen.Store(true)
	s := serveSSH(t, &sshServer{})
	p := serveProxy(t, s.addr)
	o := optionsFor(t, s, f)
	o.Addr = p.addr
	o.KnownHostsFile = writeFile(t, "known_hosts", knownhosts.Line([]string{p.addr}, s.hostKeys[0].PublicKey()))
	c, err := NewSSHConnector(o)
	if err != nil {
		t.Fatal(err)
	}
	c.alive = keepalive{every: 20 * time.Millisecond, wait: 500 * time.Millisecond}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A live peer is left alone, also while a call takes long.
	blocked := make(chan error, 1)
	go func() {
		_, err := conn.ConnectGetHostname(t.Context())
		blocked <- err
	}()
	select {
	case <-conn.Done():
		t.Fatal("a live peer was taken for dead")
	case <-time.After(600 * time.Millisecond):
	}
	p.silent.Store(true)
	select {
	case err := <-blocked:
		if Classify(err) != instance.ReasonUnreachable {
			t.Errorf("got %v (%s), want Unreachable", err, Classify(err))
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call is still blocked")
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if got, want := newSession(conn, laneFast, Limits{}, nil).lost(), "did not answer a keepalive within 500ms"; !strings.Contains(got.Error(), want) {
		t.Errorf("lost because of %q, want %q", got, want)
	}
}

// TestSSH_silentPeerCostsItsSessionOnly: a peer that stops answering ends its
// calls at their limits and is dialed anew; another host feels nothing.
func TestSSH_silentPeerCostsItsSessionOnly(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	s := serveSSH(t, &sshServer{})
	c, err := NewSSHConnector(optionsFor(t, s, f))
	if err != nil {
		t.Fatal(err)
	}
	sick := newTestLink(t, LinkOptions{Connector: c, Limits: Limits{Call: 300 * time.Millisecond}})
	well := newTestLink(t, LinkOptions{Host: "h2", Connector: NewLocalConnector(LocalOptions{Socket: serveLibvirt(t, &fakeLibvirtd{}).socket})})
	if _, err := sick.Backend().ConnectGetHostname(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.muteAfterOpen.Store(true)
	_, err = sick.Backend().ConnectGetHostname(t.Context())
	wantTimeout(t, err)
	if _, err := well.Backend().ConnectGetHostname(t.Context()); err != nil {
		t.Errorf("the other host: %v", err)
	}
	f.muteAfterOpen.Store(false)
	if _, err := sick.Backend().ConnectGetHostname(t.Context()); err != nil {
		t.Errorf("after it came back: %v", err)
	}
	eventually(t, "one SSH connection is left", func() bool { return s.open.Load() == 1 })
}

func TestSSH_libvirtdRestartIsHealedByTheNextCall(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	s := serveSSH(t, &sshServer{})
	c, err := NewSSHConnector(optionsFor(t, s, f))
	if err != nil {
		t.Fatal(err)
	}
	l := newTestLink(t, LinkOptions{Connector: c})
	for _, drop := range []func(){f.drop, s.drop, f.drop} {
		if _, err := l.Backend().ConnectGetHostname(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.warm[laneFast].mu.Lock()
		conn := l.warm[laneFast].session.conn
		l.warm[laneFast].mu.Unlock()
		drop()
		<-conn.Done()
	}
	if _, err := l.Backend().ConnectGetHostname(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one SSH connection is left", func() bool { return s.open.Load() == 1 })
}

func TestSSH_fiftyReconnectsLeaveNothing(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	s := serveSSH(t, &sshServer{})
	c, err := NewSSHConnector(optionsFor(t, s, f))
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		conn, err := c.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no SSH connection is left", func() bool { return s.open.Load() == 0 })
}

// TestSSH_uploadToAPeerThatStopsReading: the library holds its write lock
// meanwhile, and nothing but the end of the SSH client frees it.
func TestSSH_uploadToAPeerThatStopsReading(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	s := serveSSH(t, &sshServer{})
	p := serveProxy(t, s.addr)
	o := optionsFor(t, s, f)
	o.Addr = p.addr
	o.KnownHostsFile = writeFile(t, "known_hosts", knownhosts.Line([]string{p.addr}, s.hostKeys[0].PublicKey()))
	c, err := NewSSHConnector(o)
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, slog.LevelInfo, c)
	w.limits.Stall = 300 * time.Millisecond
	src := &pausingReader{pause: func() { p.silent.Store(true) }}
	err = w.Backend().StorageVolUpload(context.WithoutCancel(t.Context()), libvirt.StorageVol{Name: "base"}, src, 0, 1<<30)
	wantTimeout(t, err)
}

// pausingReader calls pause before its first byte and then never ends.
type pausingReader struct {
	once  sync.Once
	pause func()
}

func (r *pausingReader) Read(p []byte) (int, error) {
	r.once.Do(r.pause)
	return len(p), nil
}
