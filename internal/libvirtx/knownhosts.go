package libvirtx

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// knowHost sets how the server's key is checked, and restricts the server to
// the kinds of key that known_hosts has for it: it would otherwise offer one
// that nobody wrote down and look like an impostor.
func (l *login) knowHost(e SSHEndpoint) error {
	if e.InsecureIgnoreHostKey {
		l.verify = ssh.InsecureIgnoreHostKey()
		return nil
	}
	hosts, err := readKnownHosts(e.KnownHostsFile)
	if err != nil {
		return err
	}
	l.algorithms = hosts.algorithms(e.Addr)
	l.verify = hosts.check
	return nil
}

// hostKeys is a known_hosts file.
type hostKeys struct {
	file string
	db   *knownhosts.HostKeyDB
	// badLines are those that cannot be read, and so vouch for nobody.
	badLines []int
}

func readKnownHosts(file string) (*hostKeys, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, &unreadableFileError{role: "known_hosts", err: err}
	}
	h := &hostKeys{file: file, badLines: badLines(content)}
	if h.db, err = knownhosts.NewDB(file); err != nil {
		if _, gone := errors.AsType[*os.PathError](err); gone {
			return nil, &unreadableFileError{role: "known_hosts", err: err}
		}
		return nil, &badKnownHostsError{file: file, line: firstOf(h.badLines)}
	}
	return h, nil
}

func firstOf(lines []int) int {
	if len(lines) == 0 {
		return 1
	}
	return lines[0]
}

// badLines finds the lines that the parser skips without a word.
func badLines(content []byte) []int {
	var bad []int
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if _, _, _, _, _, err := ssh.ParseKnownHosts(line); err != nil {
			bad = append(bad, n)
		}
	}
	return bad
}

// algorithms are those of the keys known for addr, nil when none is. SHA-1 and
// DSA are left out, whatever the file says.
func (h *hostKeys) algorithms(addr string) []string {
	known := h.db.HostKeyAlgorithms(addr)
	if len(known) == 0 {
		// As OpenSSH does, a key of the host without its port counts too.
		known = h.db.HostKeyAlgorithms(withoutPort(addr))
	}
	safe := ssh.SupportedAlgorithms().HostKeys
	return slices.DeleteFunc(known, func(a string) bool { return !slices.Contains(safe, a) })
}

func withoutPort(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return net.JoinHostPort(host, "22")
}

// check is the ssh.HostKeyCallback.
func (h *hostKeys) check(addr string, remote net.Addr, key ssh.PublicKey) error {
	err := h.look(addr, remote, key)
	if err == nil && !h.isAuthorityAsHost(addr, key) {
		return nil
	}
	problem := h.problem(err)
	return &hostKeyError{
		addr: addr, key: key.Type() + " " + ssh.FingerprintSHA256(key), file: h.file, problem: problem, err: err,
	}
}

// look asks for the host with its port and, like OpenSSH, for the host alone
// when nothing is known of the two.
func (h *hostKeys) look(addr string, remote net.Addr, key ssh.PublicKey) error {
	callback := h.db.HostKeyCallback()
	err := callback(addr, remote, key)
	_, revoked := errors.AsType[*xknownhosts.RevokedError](err)
	if err == nil || revoked || knownhosts.IsHostKeyChanged(err) {
		return err
	}
	if callback(withoutPort(addr), remote, key) == nil {
		return nil
	}
	return err
}

// isAuthorityAsHost reports that key is nothing but an authority's, which signs
// host keys and is none. The parser does not tell the two apart.
func (h *hostKeys) isAuthorityAsHost(addr string, key ssh.PublicKey) bool {
	if _, isCert := key.(*ssh.Certificate); isCert {
		return false
	}
	known := append(h.db.HostKeys(addr), h.db.HostKeys(withoutPort(addr))...)
	authority := false
	for _, k := range known {
		if !bytes.Equal(k.Marshal(), key.Marshal()) {
			continue
		}
		if !k.Cert {
			return false
		}
		authority = true
	}
	return authority
}

func (h *hostKeys) problem(err error) string {
	if _, revoked := errors.AsType[*xknownhosts.RevokedError](err); revoked {
		return "says that this key is revoked"
	}
	unknown, isUnknown := errors.AsType[*xknownhosts.KeyError](err)
	switch {
	case err == nil:
		return "has this key for a certificate authority, which may not stand for a host"
	case isUnknown && len(unknown.Want) > 0:
		return fmt.Sprintf("has another key for it (line %d): the host was installed anew, or someone is in between", unknown.Want[0].Line)
	case isUnknown:
		return "has no key for it" + h.skipped()
	default:
		return "does not vouch for its certificate: " + err.Error()
	}
}

func (h *hostKeys) skipped() string {
	if len(h.badLines) == 0 {
		return ""
	}
	return fmt.Sprintf(", and lines that cannot be read: %s", strings.Trim(fmt.Sprint(h.badLines), "[]"))
}

// CheckKnownHosts says, without dialing, whether the file vouches for any key
// of addr (host:port), for a check of the configuration.
func CheckKnownHosts(file, addr string) error {
	h, err := readKnownHosts(file)
	if err != nil {
		return err
	}
	if len(h.algorithms(addr)) == 0 {
		return &hostKeyError{addr: addr, file: file, problem: "has no key for it" + h.skipped()}
	}
	return nil
}
