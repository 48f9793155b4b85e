package http

import (
	"context"
	"slices"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// ClientCert knows callers by the client certificate that the TLS handshake
// has verified (see TLSOptions.ClientCAFile). The map goes from a name (common
// name or DNS name) to its role.
type ClientCert map[string]Role

// Authenticate goes by the common name first, then by the DNS names in their
// order. A verified certificate with none of the names is Forbidden.
func (a ClientCert) Authenticate(_ context.Context, c Credentials) (Principal, bool, error) {
	if c.Peer == nil {
		return Principal{}, false, nil
	}
	for _, name := range slices.Concat([]string{c.Peer.Subject.CommonName}, c.Peer.DNSNames) {
		if role, ok := a[name]; ok && name != "" {
			return Principal{Name: name, Role: role}, true, nil
		}
	}
	return Principal{}, false, instance.Errorf(instance.ReasonForbidden, "the client certificate's names are not allowed here")
}
