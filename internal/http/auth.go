package http

import (
	"context"
	"crypto/x509"
	"net/http"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Role is what a caller may do.
type Role string

// The roles of the contract.
const (
	// RoleFull may do everything.
	RoleFull Role = "full"
	// RoleRead may only GET (and HEAD).
	RoleRead Role = "read"
)

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return r == RoleFull || r == RoleRead }

func (r Role) allows(method string) bool {
	return r == RoleFull || (r == RoleRead && (method == http.MethodGet || method == http.MethodHead))
}

// Principal is a caller that somebody vouched for.
type Principal struct {
	// Name goes into the log.
	Name string
	Role Role
}

// Credentials are what came with a request.
type Credentials struct {
	// Token is the bearer token, or the password that a browser sends for a page; "" without.
	Token string
	// Peer is the client certificate, verified against the configured CA; nil without.
	Peer *x509.Certificate
	// Host is the request's Host header, which the caller chose.
	Host string
}

// Authenticator knows some callers. Its methods are safe for concurrent use.
type Authenticator interface {
	// Authenticate returns who c is. ok is false when this authenticator does
	// not know. An error says that it knows and refuses (Forbidden), or that it
	// cannot tell now (a Transient reason): that is never Unauthorized, because
	// callers take Unauthorized for final.
	Authenticate(ctx context.Context, c Credentials) (p Principal, ok bool, err error)
}

// gate lets known callers pass, within their role.
type gate struct {
	authenticators []Authenticator
}

func (g *gate) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := g.identify(r)
		if err == nil {
			recordFrom(r.Context()).caller = p.Name
			if !p.Role.allows(r.Method) {
				err = instance.Errorf(instance.ReasonForbidden, "the role %s may only GET", p.Role)
			}
		}
		if err != nil {
			if instance.ReasonOf(err) == instance.ReasonUnauthorized {
				challenge(w.Header(), r)
			}
			fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// identify asks every authenticator until one knows the caller. An error of one
// counts only when no other knows.
func (g *gate) identify(r *http.Request) (Principal, error) {
	c := credentialsOf(r)
	var firstErr error
	for _, a := range g.authenticators {
		p, ok, err := a.Authenticate(r.Context(), c)
		if ok && err == nil {
			return p, nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	if firstErr != nil {
		return Principal{}, firstErr
	}
	return Principal{}, instance.Errorf(instance.ReasonUnauthorized, "no known token or client certificate came with the request")
}

// challenge says how to authenticate; a browser asks its user for a password
// where it may come with one.
func challenge(h http.Header, r *http.Request) {
	h.Set("WWW-Authenticate", `Bearer realm="kvm2d"`)
	if isPage(r.URL.Path) {
		h.Add("WWW-Authenticate", `Basic realm="kvm2d: any name, a token as password", charset="UTF-8"`)
	}
}

func credentialsOf(r *http.Request) Credentials {
	c := Credentials{Host: r.Host}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		c.Token = strings.TrimSpace(token)
	} else if _, password, ok := r.BasicAuth(); ok && isPage(r.URL.Path) {
		c.Token = password
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.VerifiedChains[0]) > 0 {
		c.Peer = r.TLS.VerifiedChains[0][0]
	}
	return c
}
