package libvirtx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// login is what one handshake needs, read from the files.
type login struct {
	user       string
	signers    []ssh.Signer
	agent      net.Conn
	verify     ssh.HostKeyCallback
	algorithms []string
}

// login reads the endpoint's files. Its errors are *unreadableFileError for
// what is not there, and types that say so for what is there and useless.
func (e SSHEndpoint) login(ctx context.Context) (*login, error) {
	l := &login{user: e.User}
	if err := l.knowHost(e); err != nil {
		return nil, err
	}
	if e.KeyFile != "" {
		key, err := readKey(e.KeyFile, e.PassphraseFile)
		if err != nil {
			return nil, err
		}
		certified, err := readCertificate(e.KeyFile+certificateSuffix, key)
		if err != nil {
			return nil, err
		}
		if certified != nil {
			l.signers = append(l.signers, certified)
		}
		l.signers = append(l.signers, key)
	}
	if e.AgentSocket != "" {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", e.AgentSocket)
		if err != nil {
			return nil, &unreadableFileError{role: "ssh-agent", err: err}
		}
		l.agent = conn
	}
	return l, nil
}

// close lets the agent go; the keys are used during the handshake only.
func (l *login) close() {
	if l.agent != nil {
		_ = l.agent.Close()
	}
}

// keys are offered in this order: certificate, key, the agent's.
func (l *login) keys() ([]ssh.Signer, error) {
	signers := slices.Clone(l.signers)
	if l.agent == nil {
		return signers, nil
	}
	fromAgent, err := agent.NewClient(l.agent).Signers()
	if err != nil {
		return nil, err
	}
	return append(signers, fromAgent...), nil
}

// config is for one handshake over conn.
func (l *login) config(conn *watchedConn) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: l.user,
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			conn.offered.Store(true)
			return l.keys()
		})},
		HostKeyCallback: func(addr string, remote net.Addr, key ssh.PublicKey) error {
			conn.heard.Store(true)
			return l.verify(addr, remote, key)
		},
		HostKeyAlgorithms: l.algorithms,
		ClientVersion:     "SSH-2.0-kvm2d",
		AuthCallback: func(state *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
			// The library gives a refusal no type. It asks here before each
			// further method; a connection that broke is no refusal.
			refused := slices.Contains(state.TriedMethods, "publickey") ||
				!slices.Contains(state.AllowedMethods, "publickey")
			if refused && !conn.broken.Load() {
				return nil, errAuthRefused
			}
			return nil, nil
		},
	}
}

// CheckKey says, without dialing, why a key file, its passphrase file ("" for
// none) or the certificate beside it is of no use, for a check of the configuration.
func CheckKey(file, passphraseFile string) error {
	key, err := readKey(file, passphraseFile)
	if err != nil {
		return err
	}
	certified, err := readCertificate(file+certificateSuffix, key)
	if certified == nil || err != nil {
		return err
	}
	cert, ok := certified.PublicKey().(*ssh.Certificate)
	if !ok || cert.ValidBefore == ssh.CertTimeInfinity {
		return nil
	}
	if end := time.Unix(int64(cert.ValidBefore), 0); time.Now().After(end) {
		return &badKeyError{file: file + certificateSuffix, problem: "expired at " + end.UTC().Format(time.RFC3339)}
	}
	return nil
}

// certificateSuffix makes the name of a certificate from that of its key.
const certificateSuffix = "-cert.pub"

// readKey reads a private key; no part of it gets into an error.
func readKey(file, passphraseFile string) (ssh.Signer, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, &unreadableFileError{role: "SSH key", err: err}
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); !locked {
		if err != nil {
			return nil, &badKeyError{file: file, problem: "is not a private key in OpenSSH or PEM form"}
		}
		return signer, nil
	}
	if passphraseFile == "" {
		return nil, &badKeyError{file: file, problem: "is protected by a passphrase, and no passphrase file is configured"}
	}
	passphrase, err := os.ReadFile(passphraseFile)
	if err != nil {
		return nil, &unreadableFileError{role: "SSH key's passphrase", err: err}
	}
	passphrase = bytes.TrimSuffix(bytes.TrimSuffix(passphrase, []byte("\n")), []byte("\r"))
	signer, err = ssh.ParsePrivateKeyWithPassphrase(pem, passphrase)
	if err != nil {
		return nil, &badKeyError{file: file, problem: "is not unlocked by the passphrase in " + passphraseFile}
	}
	return signer, nil
}

// readCertificate reads the certificate beside a key, nil when there is none.
func readCertificate(file string, key ssh.Signer) (ssh.Signer, error) {
	line, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &unreadableFileError{role: "SSH certificate", err: err}
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, &badKeyError{file: file, problem: "is not an SSH certificate"}
	}
	cert, ok := public.(*ssh.Certificate)
	if !ok {
		return nil, &badKeyError{file: file, problem: "is a public key, not a certificate"}
	}
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		return nil, &badKeyError{file: file, problem: "does not belong to the key beside it"}
	}
	return signer, nil
}

// watchedConn remembers how far a handshake came, and that the connection broke.
type watchedConn struct {
	net.Conn
	broken atomic.Bool
	// heard: the server showed its key. offered: it was shown ours.
	heard, offered atomic.Bool
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.note(err)
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.note(err)
	return n, err
}

func (c *watchedConn) note(err error) {
	if err != nil {
		c.broken.Store(true)
	}
}

// explain gives the error of a handshake the type that the library did not.
func (c *watchedConn) explain(e SSHEndpoint, l *login, err error) error {
	failed := &handshakeError{err: err}
	n, isNegotiation := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	switch {
	case isNegotiation && len(l.algorithms) > 0 && slices.Equal(n.SupportedAlgorithms, l.algorithms):
		// We asked for the kinds of the known keys only.
		failed.err = &hostKeyError{
			addr: e.Addr, key: "none of the known kinds", file: e.KnownHostsFile,
			problem: "has only keys of other kinds than the server's", err: err,
		}
	case cutOff(err):
		failed.unheard = !c.heard.Load()
	case c.offered.Load() && !errors.Is(err, errAuthRefused):
		// A server that has seen enough keys says so by disconnecting.
		failed.err = fmt.Errorf("%w (%w)", errAuthRefused, err)
	}
	return failed
}

// cutOff reports that a connection ended, rather than a conversation.
func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		as[syscall.Errno](err) || as[net.Error](err)
}
