package libvirtx

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshServer is an SSH server in this process that forwards unix sockets and
// TCP, as a libvirt host's and a jump host's do.
type sshServer struct {
	addr string
	// hostKeys are offered in this order.
	hostKeys []ssh.Signer
	// accept says which key may log in; nil takes every key.
	accept func(ssh.ConnMetadata, ssh.PublicKey) error
	// mute accepts connections and says nothing; hangChannels leaves requests
	// for a channel unanswered; refuseChannels turns them down.
	mute, hangChannels, refuseChannels atomic.Bool
	// hangUps is how many are hung up on unheard, as MaxStartups does.
	hangUps atomic.Int32

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	open  atomic.Int32
	users []string
	work  sync.WaitGroup
	ln    net.Listener
}

func newSigner(tb testing.TB) ssh.Signer {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return signer
}

func listen(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serveSSH starts a server that ends with the test.
func serveSSH(t *testing.T, s *sshServer) *sshServer {
	t.Helper()
	if s.hostKeys == nil {
		s.hostKeys = []ssh.Signer{newSigner(t)}
	}
	ln := listen(t, "tcp", "127.0.0.1:0")
	s.ln, s.addr, s.conns = ln, ln.Addr().String(), map[net.Conn]struct{}{}
	s.work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.keep(conn)
			s.work.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.drop()
		s.work.Wait()
	})
	return s
}

// keep notes what drop is to close.
func (s *sshServer) keep(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[conn] = struct{}{}
}

// drop ends every connection.
func (s *sshServer) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *sshServer) serve(conn net.Conn) {
	defer conn.Close()
	if s.hangUps.Add(-1) >= 0 {
		return
	}
	if s.mute.Load() {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if s.accept != nil {
			if err := s.accept(c, key); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}
	for _, key := range s.hostKeys {
		config.AddHostKey(key)
	}
	sc, chans, reqs, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	s.open.Add(1)
	defer s.open.Add(-1)
	s.mu.Lock()
	s.users = append(s.users, sc.User())
	s.mu.Unlock()
	s.work.Go(func() { ssh.DiscardRequests(reqs) })
	for ch := range chans {
		s.work.Go(func() { s.forward(ch) })
	}
}

// forward answers a request for a channel to a unix socket or a TCP address.
func (s *sshServer) forward(req ssh.NewChannel) {
	if s.hangChannels.Load() {
		return
	}
	to, err := s.reach(req)
	if err != nil {
		_ = req.Reject(ssh.ConnectionFailed, "open failed")
		return
	}
	s.keep(to)
	defer to.Close()
	ch, reqs, err := req.Accept()
	if err != nil {
		return
	}
	s.work.Go(func() { ssh.DiscardRequests(reqs) })
	s.work.Go(func() {
		_, _ = io.Copy(ch, to)
		_ = ch.Close()
	})
	_, _ = io.Copy(to, ch)
}

func (s *sshServer) reach(req ssh.NewChannel) (net.Conn, error) {
	if s.refuseChannels.Load() {
		return nil, errors.New("refused")
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	switch req.ChannelType() {
	case "direct-streamlocal@openssh.com":
		var m struct {
			Path     string
			Reserved string
			Port     uint32
		}
		if err := ssh.Unmarshal(req.ExtraData(), &m); err != nil {
			return nil, err
		}
		return dialer.Dial("unix", m.Path)
	case "direct-tcpip":
		var m struct {
			Host   string
			Port   uint32
			From   string
			FromPt uint32
		}
		if err := ssh.Unmarshal(req.ExtraData(), &m); err != nil {
			return nil, err
		}
		return net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(m.Host), Port: int(m.Port)})
	default:
		return nil, errors.New("unknown channel type")
	}
}
