package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// shownURL is a URL as it may be shown: without user, password, query and fragment.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unparsable URL)"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.RawQuery != "" {
		return shown.String() + "?…"
	}
	return shown.String()
}

// safeCause reduces an error of the HTTP client to one whose text is known to
// hold no URL: credentials and signed queries live in URLs. What cannot be
// recognised becomes a plain "request failed".
func safeCause(err error) error {
	if refused := refusedRedirect(err); refused != nil {
		return refused
	}
	for _, known := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, context.Canceled, io.EOF} {
		if errors.Is(err, known) {
			return known
		}
	}
	var (
		opErr   *net.OpError
		dnsErr  *net.DNSError
		certErr *tls.CertificateVerificationError
		hostErr x509.HostnameError
		tlsErr  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &dnsErr):
		return dnsErr
	case errors.As(err, &opErr):
		return opErr
	case errors.As(err, &hostErr):
		return hostErr
	case errors.As(err, &certErr):
		return certErr
	case errors.As(err, &tlsErr):
		return tlsErr
	default:
		return errors.New("request failed")
	}
}

func refusedRedirect(err error) error {
	for _, refused := range []error{errTooManyRedirects, errDowngrade, errScheme, errLocalTarget} {
		if errors.Is(err, refused) {
			return refused
		}
	}
	return nil
}

// onHost names the host in an error of ours that does not know it yet.
func onHost(err error, host string) error {
	var e *instance.Error
	if !errors.As(err, &e) || e.Host != "" {
		return err
	}
	named := *e
	named.Host = host
	return &named
}

// ended makes the error of a context that is over, from its cause.
func ended(ctx context.Context, op, host string) error {
	cause := context.Cause(ctx)
	return &instance.Error{Reason: instance.ReasonOf(cause), Op: op, Host: host, Err: cause}
}
