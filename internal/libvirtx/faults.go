package libvirtx

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The errors of the transport's own making. Each is a type or value so that
// Classify need not read text; none holds key material or what is transferred.

var (
	// errClosed: the link was closed, by us.
	errClosed = errors.New("the connection to the host was closed by this daemon")
	// errNotSent: the session ended before the call went out, so that it may be
	// sent again on another whatever it does.
	errNotSent = errors.New("the connection ended before the call was sent")
	// errHungUp: the far end closed an open connection in order.
	errHungUp = fmt.Errorf("libvirtd or the SSH server hung up: %w", io.EOF)
	// errAuthRefused: the SSH server refused every key we have.
	errAuthRefused = errors.New("the SSH server refused the key: is the public key in the user's authorized_keys, and the user the right one?")
)

// overdueError: something passed its limit.
type overdueError struct {
	// what was being waited for: a call's name, or a step of a dial.
	what  string
	limit time.Duration
}

func (e *overdueError) Error() string {
	return fmt.Sprintf("%s: no answer within %s", e.what, e.limit)
}

// silentError: the SSH server let a keepalive wait.
type silentError struct {
	wait time.Duration
}

func (e *silentError) Error() string {
	return fmt.Sprintf("the SSH server did not answer a keepalive within %s", e.wait)
}

// SourceError says that what was to be uploaded could not be read to its end:
// the host is not to blame.
type SourceError struct {
	// Err is the source's own error, io.ErrUnexpectedEOF when it was too short.
	Err error
}

func (e *SourceError) Error() string { return "read what is to be uploaded: " + e.Err.Error() }

// Unwrap returns the source's error.
func (e *SourceError) Unwrap() error { return e.Err }

// unreadableFileError: a file that a dial needs is not there or not ours to read.
type unreadableFileError struct {
	// role says what the file is for: "SSH key".
	role string
	// err is the *fs.PathError, which names the file.
	err error
}

func (e *unreadableFileError) Error() string { return e.role + ": " + e.err.Error() }
func (e *unreadableFileError) Unwrap() error { return e.err }

// badKeyError: a key, certificate or passphrase file is there and useless. It
// keeps no cause: a parser's message might quote what it read.
type badKeyError struct {
	file, problem string
}

func (e *badKeyError) Error() string { return e.file + " " + e.problem }

// hostKeyError: the server's key is not one that known_hosts vouches for.
type hostKeyError struct {
	// addr is host:port as configured, key the type and fingerprint presented,
	// "" when none was.
	addr, key, file, problem string
	err                      error
}

func (e *hostKeyError) Error() string {
	if e.key == "" {
		return fmt.Sprintf("host key of %s: %s %s", e.addr, e.file, e.problem)
	}
	return fmt.Sprintf("host key of %s (%s): %s %s", e.addr, e.key, e.file, e.problem)
}
func (e *hostKeyError) Unwrap() error { return e.err }

// badKnownHostsError: a known_hosts file without one line that can be read.
type badKnownHostsError struct {
	file string
	line int
}

func (e *badKnownHostsError) Error() string {
	return fmt.Sprintf("%s:%d: not a known_hosts line, and the file has no other", e.file, e.line)
}

// socketError: none of libvirt's sockets could be opened. An SSH server says
// the same for all causes, so the message lists them.
type socketError struct {
	paths []string
	// opener is who did not open them, more a cause that only it has.
	opener, more string
	err          error
}

const forwardingHint = ", or sshd_config has AllowStreamLocalForwarding no"

func (e *socketError) Error() string {
	return fmt.Sprintf("%s did not open %s (%v): either libvirtd (or virtqemud) does not run there, "+
		"or the user may not open its socket (group libvirt)%s",
		e.opener, strings.Join(e.paths, " or "), e.err, e.more)
}
func (e *socketError) Unwrap() error { return e.err }

// frameError: the peer does not speak libvirt's protocol.
type frameError struct {
	problem string
}

func (e *frameError) Error() string {
	return "the peer does not speak libvirt's protocol (" + e.problem + ")"
}

// stepError: a step of a dial failed. Its text may quote the peer.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + printable(e.err.Error()) }
func (e *stepError) Unwrap() error { return e.err }

// handshakeError: the SSH handshake ended for a cause that has no type.
type handshakeError struct {
	// unheard: the server hung up before it said who it is.
	unheard bool
	err     error
}

func (e *handshakeError) Error() string {
	if e.unheard {
		return "the SSH server hung up before it showed its key (too many logins at once, a ban, or no SSH server at all): " + e.err.Error()
	}
	return e.err.Error()
}
func (e *handshakeError) Unwrap() error { return e.err }
