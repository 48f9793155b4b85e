package libvirtx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// libvirtCodes reads the list of numbers that must have a row.
func libvirtCodes(t *testing.T) map[uint32]string {
	t.Helper()
	f, err := os.Open("testdata/libvirt-codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	codes := map[uint32]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		number, name, ok := strings.Cut(lines.Text(), " ")
		if !ok || number == "#" {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		codes[uint32(n)] = name
	}
	return codes
}

// TestClassify_table holds the classification to the contract: kinds by
// libvirt's number, by type, whatever is wrapped around, and never by text.
func TestClassify_table(t *testing.T) {
	want := map[uint32]instance.Reason{
		42: instance.ReasonInstanceNotFound,
		50: instance.ReasonImageNotOnHost,
		49: instance.ReasonPoolNotFound,
		43: instance.ReasonNetworkNotFound,

		27: instance.ReasonRefusedByLibvirt,
		35: instance.ReasonRefusedByLibvirt,
		92: instance.ReasonRefusedByLibvirt,
		3:  instance.ReasonRefusedByLibvirt,
		8:  instance.ReasonRefusedByLibvirt,
		67: instance.ReasonRefusedByLibvirt,
		74: instance.ReasonRefusedByLibvirt,
		84: instance.ReasonRefusedByLibvirt,

		29: instance.ReasonAuthenticationFailed,
		45: instance.ReasonAuthenticationFailed,
		79: instance.ReasonAuthenticationFailed,
		88: instance.ReasonAuthenticationFailed,
		94: instance.ReasonAuthenticationFailed,

		5:  instance.ReasonLibvirtUnavailable,
		68: instance.ReasonTimeout,
		87: instance.ReasonHostBusy,
	}
	for _, code := range []uint32{1, 9, 38, 39, 55, 78, 80, 86, 90, 97, 112, 113} {
		want[code] = instance.ReasonLibvirtError
	}
	codes := libvirtCodes(t)
	for code, name := range codes {
		t.Run(fmt.Sprintf("libvirt %d %s", code, name), func(t *testing.T) {
			reason, ok := want[code]
			if _, row := libvirtReasons[libvirt.ErrorNumber(code)]; !ok || !row {
				t.Fatal("no row")
			}
			err := fmt.Errorf("define: %w", libvirt.Error{Code: code, Message: "no domain, no pool, EOF, permission denied"})
			if got := Classify(err); got != reason {
				t.Errorf("got %s, want %s", got, reason)
			}
		})
	}
	for code := range libvirtReasons {
		if _, listed := codes[uint32(code)]; !listed {
			t.Errorf("number %d has a row and is not listed", code)
		}
	}
	for code := range uint32(400) {
		_, known := want[code]
		if got := Classify(libvirt.Error{Code: code}); !known && (got != instance.ReasonLibvirtError || got.Kind() != instance.Transient) {
			t.Errorf("unknown number %d: got %s (%s), want LibvirtError (Transient)", code, got, got.Kind())
		}
	}
}

func TestClassify_transport(t *testing.T) {
	missing := &fs.PathError{Op: "open", Path: "/etc/kvm2d/ssh/id", Err: syscall.ENOENT}
	for _, row := range []struct {
		name string
		err  error
		want instance.Reason
		kind instance.Kind
	}{
		{"past a limit", &overdueError{what: "DomainCreate"}, instance.ReasonTimeout, instance.Transient},
		{"deadline", context.DeadlineExceeded, instance.ReasonTimeout, instance.Transient},
		{"deadline of a socket", os.ErrDeadlineExceeded, instance.ReasonTimeout, instance.Transient},
		{"caller left", context.Canceled, instance.ReasonCancelled, instance.Transient},
		{"caller's own time is over", fmt.Errorf("wait for a connection: %w", instance.Errorf(instance.ReasonTimeout, "not done")), instance.ReasonTimeout, instance.Transient},
		{"daemon stops", errClosed, instance.ReasonShuttingDown, instance.Transient},
		{"key file missing", &unreadableFileError{role: "SSH key", err: missing}, instance.ReasonCredentialsUnavailable, instance.Transient},
		{"unparsable key", &badKeyError{file: "id"}, instance.ReasonAuthenticationFailed, instance.Permanent},
		{"key refused", &handshakeError{err: errAuthRefused}, instance.ReasonAuthenticationFailed, instance.Permanent},
		{"host key rejected", &handshakeError{err: &hostKeyError{}}, instance.ReasonHostKeyRejected, instance.Permanent},
		{"known_hosts unparsable", &badKnownHostsError{}, instance.ReasonMisconfigured, instance.Permanent},
		{"no algorithm in common", &handshakeError{err: &ssh.AlgorithmNegotiationError{}}, instance.ReasonMisconfigured, instance.Permanent},
		{"handshake cut off", &handshakeError{err: io.EOF}, instance.ReasonUnreachable, instance.Transient},
		{"handshake, no type", &handshakeError{err: errors.New("ssh: overflow")}, instance.ReasonUnreachable, instance.Transient},
		{"channel refused", &socketError{err: &ssh.OpenChannelError{}}, instance.ReasonLibvirtUnavailable, instance.Transient},
		{"jump host can't reach it", &ssh.OpenChannelError{Reason: ssh.ConnectionFailed}, instance.ReasonUnreachable, instance.Transient},
		{"garbage", endError{&frameError{}}, instance.ReasonLibvirtUnavailable, instance.Transient},
		{"unknown procedure", libvirt.ErrUnsupported, instance.ReasonRefusedByLibvirt, instance.Permanent},
		{"connection lost", libvirt.ErrInterrupted, instance.ReasonUnreachable, instance.Transient},
		{"never sent", errNotSent, instance.ReasonUnreachable, instance.Transient},
		{"refused", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, instance.ReasonUnreachable, instance.Transient},
		{"reset", syscall.ECONNRESET, instance.ReasonUnreachable, instance.Transient},
		{"no such name", &net.DNSError{Err: "no such host", IsNotFound: true}, instance.ReasonUnreachable, instance.Transient},
		{"end of stream", io.EOF, instance.ReasonUnreachable, instance.Transient},
		{"closed", net.ErrClosed, instance.ReasonUnreachable, instance.Transient},
		{"source too short", &SourceError{Err: io.ErrUnexpectedEOF}, instance.ReasonDownloadFailed, instance.Transient},
		{"source's own reason", &SourceError{Err: instance.Errorf(instance.ReasonChecksumMismatch, "")}, instance.ReasonChecksumMismatch, instance.Permanent},
		{"source cancelled", &SourceError{Err: context.Canceled}, instance.ReasonCancelled, instance.Transient},
		{"nobody knows", errors.New("domain not found"), instance.ReasonLibvirtError, instance.Transient},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, err := range []error{row.err, fmt.Errorf("open: %w", row.err)} {
				if got := Classify(err); got != row.want || got.Kind() != row.kind {
					t.Errorf("%v: got %s (%s), want %s (%s)", err, got, got.Kind(), row.want, row.kind)
				}
			}
		})
	}
}

func TestClassify_channelRefusedListsItsCauses(t *testing.T) {
	err := &socketError{paths: defaultSockets, opener: "the SSH server", more: forwardingHint, err: errors.New("open failed")}
	for _, want := range []string{defaultSockets[0], defaultSockets[1], "does not run", "group libvirt", "AllowStreamLocalForwarding"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
}
