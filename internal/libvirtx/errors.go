package libvirtx

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// libvirtReasons is the table for what libvirt itself answers, by its number.
// A number that is not here is LibvirtError: Transient, because retrying loses
// nothing. What one number means in one place only (9 on a define, 90 and 55 on
// a volume, 38 when the pool is full) is for the caller who knows the place.
var libvirtReasons = map[libvirt.ErrorNumber]instance.Reason{
	libvirt.ErrNoDomain:      instance.ReasonInstanceNotFound,
	libvirt.ErrNoStorageVol:  instance.ReasonImageNotOnHost,
	libvirt.ErrNoStoragePool: instance.ReasonPoolNotFound,
	libvirt.ErrNoNetwork:     instance.ReasonNetworkNotFound,

	libvirt.ErrXMLError:             instance.ReasonRefusedByLibvirt,
	libvirt.ErrXMLDetail:            instance.ReasonRefusedByLibvirt,
	libvirt.ErrXMLInvalidSchema:     instance.ReasonRefusedByLibvirt,
	libvirt.ErrNoSupport:            instance.ReasonRefusedByLibvirt,
	libvirt.ErrConfigUnsupported:    instance.ReasonRefusedByLibvirt,
	libvirt.ErrArgumentUnsupported:  instance.ReasonRefusedByLibvirt,
	libvirt.ErrOperationUnsupported: instance.ReasonRefusedByLibvirt,
	libvirt.ErrInvalidArg:           instance.ReasonRefusedByLibvirt,

	libvirt.ErrAuthFailed:      instance.ReasonAuthenticationFailed,
	libvirt.ErrAuthCancelled:   instance.ReasonAuthenticationFailed,
	libvirt.ErrAuthUnavailable: instance.ReasonAuthenticationFailed,
	libvirt.ErrAccessDenied:    instance.ReasonAuthenticationFailed,
	libvirt.ErrOperationDenied: instance.ReasonAuthenticationFailed,

	libvirt.ErrNoConnect:        instance.ReasonLibvirtUnavailable,
	libvirt.ErrResourceBusy:     instance.ReasonHostBusy,
	libvirt.ErrOperationTimeout: instance.ReasonTimeout,

	libvirt.ErrInternalError:       instance.ReasonLibvirtError,
	libvirt.ErrOperationFailed:     instance.ReasonLibvirtError,
	libvirt.ErrSystemError:         instance.ReasonLibvirtError,
	libvirt.ErrRPC:                 instance.ReasonLibvirtError,
	libvirt.ErrOperationInvalid:    instance.ReasonLibvirtError,
	libvirt.ErrOperationAborted:    instance.ReasonLibvirtError,
	libvirt.ErrNoDomainMetadata:    instance.ReasonLibvirtError,
	libvirt.ErrAgentUnresponsive:   instance.ReasonLibvirtError,
	libvirt.ErrAgentUnsynced:       instance.ReasonLibvirtError,
	libvirt.ErrAgentCommandTimeout: instance.ReasonLibvirtError,
	libvirt.ErrAgentCommandFailed:  instance.ReasonLibvirtError,
	libvirt.ErrStorageVolExist:     instance.ReasonLibvirtError,
}

// transportReasons is the table for everything that is not libvirt's answer,
// by type or value, first match first: what is more specific stands higher.
var transportReasons = []struct {
	match  func(error) bool
	reason instance.Reason
}{
	{is(errClosed), instance.ReasonShuttingDown},
	{as[*overdueError], instance.ReasonTimeout},
	{as[*unreadableFileError], instance.ReasonCredentialsUnavailable},
	{as[*badKeyError], instance.ReasonAuthenticationFailed},
	{is(errAuthRefused), instance.ReasonAuthenticationFailed},
	{as[*hostKeyError], instance.ReasonHostKeyRejected},
	{as[*badKnownHostsError], instance.ReasonMisconfigured},
	{as[*ssh.AlgorithmNegotiationError], instance.ReasonMisconfigured},
	{as[*socketError], instance.ReasonLibvirtUnavailable},
	{as[*frameError], instance.ReasonLibvirtUnavailable},
	{is(libvirt.ErrUnsupported), instance.ReasonRefusedByLibvirt},
	{is(context.Canceled), instance.ReasonCancelled},
	{is(context.DeadlineExceeded), instance.ReasonTimeout},
	{is(os.ErrDeadlineExceeded), instance.ReasonTimeout},
	{is(errNotSent), instance.ReasonUnreachable},
	{as[*silentError], instance.ReasonUnreachable},
	{is(libvirt.ErrInterrupted), instance.ReasonUnreachable},
	{as[*ssh.OpenChannelError], instance.ReasonUnreachable},
	{as[*ssh.ExitMissingError], instance.ReasonUnreachable},
	{as[net.Error], instance.ReasonUnreachable},
	{as[syscall.Errno], instance.ReasonUnreachable},
	{is(io.EOF), instance.ReasonUnreachable},
	{is(io.ErrUnexpectedEOF), instance.ReasonUnreachable},
	{is(io.ErrClosedPipe), instance.ReasonUnreachable},
	{is(net.ErrClosed), instance.ReasonUnreachable},
	{as[*handshakeError], instance.ReasonUnreachable},
}

// Classify gives the reason of an error that came out of a Backend, a
// Connector or a Link. It goes by libvirt's numbers, by types and by values,
// never by text, and is total: what nobody knows is LibvirtError.
//
// The error of an upload's source is not the host's fault and keeps the reason
// it has; one without a reason is DownloadFailed. Nor is the cause that a
// caller ended its context with: it keeps its reason, too.
func Classify(err error) instance.Reason {
	if src, ok := errors.AsType[*SourceError](err); ok {
		return sourceReason(src)
	}
	if answer, ok := errors.AsType[libvirt.Error](err); ok {
		if r, ok := libvirtReasons[libvirt.ErrorNumber(answer.Code)]; ok {
			return r
		}
		return instance.ReasonLibvirtError
	}
	if own, ok := errors.AsType[*instance.Error](err); ok {
		return own.Reason
	}
	for _, row := range transportReasons {
		if row.match(err) {
			return row.reason
		}
	}
	return instance.ReasonLibvirtError
}

func sourceReason(src *SourceError) instance.Reason {
	if r := instance.ReasonOf(src.Err); r != instance.ReasonInternal || as[*instance.Error](src.Err) {
		return r
	}
	return instance.ReasonDownloadFailed
}

// is and as make rows of transportReasons.
func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
