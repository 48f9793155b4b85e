package libvirtx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"
)

// defaultSockets are where libvirt listens, the monolithic daemon first.
var defaultSockets = []string{"/var/run/libvirt/libvirt-sock", "/var/run/libvirt/virtqemud-sock"}

// SSHEndpoint is one SSH server and how to log in there. Its files are read at
// each dial, so that rotating them needs no restart.
type SSHEndpoint struct {
	// Addr is host:port, the host as known_hosts has it.
	Addr string
	User string
	// KeyFile is a private key (ed25519, ecdsa or rsa). A certificate beside it,
	// KeyFile-cert.pub, is offered first.
	KeyFile string
	// PassphraseFile unlocks KeyFile; its last line break is not part of it.
	PassphraseFile string
	// AgentSocket is an ssh-agent's socket, asked after KeyFile or instead of it.
	AgentSocket string
	// KnownHostsFile vouches for the server's key.
	KnownHostsFile string
	// InsecureIgnoreHostKey takes any host key: whoever is in between reads and
	// changes everything.
	InsecureIgnoreHostKey bool
}

// missing names what the endpoint lacks.
func (e SSHEndpoint) missing(prefix string) []error {
	var errs []error
	require := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(prefix+what))
		}
	}
	_, _, err := net.SplitHostPort(e.Addr)
	require(err == nil, "Addr is not host:port")
	require(e.User != "", "User is missing")
	require(e.KeyFile != "" || e.AgentSocket != "", "KeyFile and AgentSocket are both missing")
	require(e.KnownHostsFile != "" || e.InsecureIgnoreHostKey, "KnownHostsFile is missing")
	return errs
}

// SSHOptions are what an SSHConnector is made of.
type SSHOptions struct {
	SSHEndpoint
	// Jump is gone through on the way, nil for none.
	Jump *SSHEndpoint
	// Socket is libvirt's socket on the host; "" tries the usual two.
	Socket string
	// DriverURI is what libvirt opens, "" for qemu:///system.
	DriverURI string
}

// SSHConnector connects to a libvirt socket forwarded through SSH: one SSH
// connection for each Conn, owned by it and closed with it.
type SSHConnector struct {
	target  SSHEndpoint
	jump    *SSHEndpoint
	sockets []string
	uri     libvirt.ConnectURI
	alive   keepalive
}

// NewSSHConnector checks that the options are whole. It does no I/O.
func NewSSHConnector(o SSHOptions) (*SSHConnector, error) {
	missing := o.missing("ssh: ")
	if o.Jump != nil {
		missing = append(missing, o.Jump.missing("ssh jump host: ")...)
	}
	if missing != nil {
		return nil, errors.Join(missing...)
	}
	c := &SSHConnector{
		target:  o.SSHEndpoint,
		jump:    o.Jump,
		sockets: defaultSockets,
		uri:     libvirt.ConnectURI(cmp.Or(o.DriverURI, string(libvirt.QEMUSystem))),
		alive:   defaultKeepalive,
	}
	if o.Socket != "" {
		c.sockets = []string{o.Socket}
	}
	return c, nil
}

// An SSH server that has as many logins under way as it takes (MaxStartups)
// hangs up on the next one unheard; ours comes again, after a random time up to
// a bound that doubles.
const (
	dropTries = 5
	dropPause = 100 * time.Millisecond
)

// Connect dials, logs in, opens the socket and libvirt's driver. It fails with
// the cause of ctx when that ends.
func (c *SSHConnector) Connect(ctx context.Context) (Conn, error) {
	for try := 0; ; try++ {
		conn, err := c.connectOnce(ctx)
		if err == nil {
			return conn, nil
		}
		cut, ok := errors.AsType[*handshakeError](err)
		if !ok || !cut.unheard || try == dropTries-1 {
			return nil, err
		}
		pause := time.NewTimer(rand.N(dropPause << try))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, endedBy(ctx, "log in to "+c.target.Addr, err)
		}
	}
}

// connectOnce is one try. When ctx ends the TCP connection is closed, which
// ends whatever step it was in.
func (c *SSHConnector) connectOnce(ctx context.Context) (Conn, error) {
	hops := []SSHEndpoint{c.target}
	if c.jump != nil {
		hops = []SSHEndpoint{*c.jump, c.target}
	}
	logins := make([]*login, 0, len(hops))
	leave := func() {
		for _, l := range logins {
			l.close()
		}
	}
	defer leave()
	for _, hop := range hops {
		l, err := hop.login(ctx)
		if err != nil {
			return nil, err
		}
		logins = append(logins, l)
	}
	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", hops[0].Addr)
	if err != nil {
		return nil, endedBy(ctx, "connect to "+hops[0].Addr, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = tcp.Close(); leave() })
	t := &tunnel{base: tcp}
	conn, step, err := c.climb(t, newQuickACK(tcp), hops, logins)
	if err == nil && stop() {
		return conn, nil
	}
	if conn != nil {
		_ = conn.Close()
	}
	t.close()
	t.wait()
	return nil, endedBy(ctx, step, err)
}

// climb goes from a TCP connection to an open libvirt. It says in which step
// it ended.
func (c *SSHConnector) climb(t *tunnel, conn net.Conn, hops []SSHEndpoint, logins []*login) (*wire, string, error) {
	for i, hop := range hops {
		if i > 0 {
			var err error
			if conn, err = t.last().Dial("tcp", hop.Addr); err != nil {
				return nil, "connect from the jump host to " + hop.Addr, err
			}
		}
		if err := t.handshake(conn, hop, logins[i]); err != nil {
			return nil, "log in to " + hop.Addr, err
		}
	}
	t.keepAlive(c.alive)
	socket, err := t.openSocket(c.sockets)
	if err != nil {
		return nil, "open libvirt's socket on " + c.target.Addr, err
	}
	w, err := openWire(socket, t.close, c.uri)
	if err != nil {
		return nil, "open libvirt on " + c.target.Addr, err
	}
	w.wait, w.silent = t.wait, t.whySilent
	return w, "connect to " + c.target.Addr, nil
}

// endedBy tells what ended a step: ctx if it ended, else err.
func endedBy(ctx context.Context, step string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", step, context.Cause(ctx))
	}
	return &stepError{step: step, err: err}
}

// tunnel is the chain of SSH clients under one connection.
type tunnel struct {
	base    net.Conn
	clients []*ssh.Client
	closing sync.Once
	work    sync.WaitGroup
	// silent is set before the tunnel is closed for a keepalive without an answer.
	silent atomic.Pointer[silentError]
}

// whySilent is nil for a peer that answers.
func (t *tunnel) whySilent() error {
	if e := t.silent.Load(); e != nil {
		return e
	}
	return nil
}

func (t *tunnel) last() *ssh.Client { return t.clients[len(t.clients)-1] }

// handshake logs in over conn.
func (t *tunnel) handshake(conn net.Conn, hop SSHEndpoint, l *login) error {
	watched := &watchedConn{Conn: conn}
	sc, chans, reqs, err := ssh.NewClientConn(watched, hop.Addr, l.config(watched))
	if err != nil {
		return watched.explain(hop, l, err)
	}
	t.clients = append(t.clients, ssh.NewClient(sc, chans, reqs))
	return nil
}

// openSocket opens the first of the paths that the server opens.
func (t *tunnel) openSocket(paths []string) (net.Conn, error) {
	var refused error
	for _, path := range paths {
		conn, err := t.last().Dial("unix", path)
		if err == nil {
			return conn, nil
		}
		if _, ok := errors.AsType[*ssh.OpenChannelError](err); !ok {
			return nil, err
		}
		refused = err
	}
	return nil, &socketError{paths: paths, opener: "the SSH server", more: forwardingHint, err: refused}
}

// close ends the chain from its far end; the TCP connection under it last. It
// does not wait.
func (t *tunnel) close() error {
	t.closing.Do(func() {
		for _, client := range slices.Backward(t.clients) {
			_ = client.Close()
		}
		_ = t.base.Close()
	})
	return nil
}

// wait is for after close.
func (t *tunnel) wait() {
	for _, client := range t.clients {
		_ = client.Wait()
	}
	t.work.Wait()
}
