package config

import (
	"net"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const labelRule = "want a DNS label: 1 to 63 of a-z, 0-9 and -, starting and ending with a letter or digit"

// validate adds a fault for every value that cannot be used.
func validate(cfg *Config, r *report) {
	r.server(&cfg.Server)
	r.bounds(reflect.ValueOf(cfg).Elem(), "")
	if r.label("kvm2.owner", cfg.KVM2.Owner); !r.has("kvm2") {
		r.fault("kvm2", "missing: it holds hosts, images, sizes and placements")
		return
	}
	r.hosts(cfg.KVM2.Hosts)
	r.images(cfg.KVM2.Images)
	r.sizes(cfg.KVM2.Sizes)
	r.placements(&cfg.KVM2)
}

func (r *report) server(s *Server) {
	r.listen("server.listen", s.Listen)
	r.listen("server.adminListen", s.AdminListen)
	if s.Listen == s.AdminListen && !strings.HasSuffix(s.Listen, ":0") {
		r.fault("server.adminListen", "the same address as server.listen")
	}
	if s.TLS != nil {
		r.required("server.tls.certFile", s.TLS.CertFile)
		r.required("server.tls.keyFile", s.TLS.KeyFile)
	}
	if t := s.Auth.Token; t != nil {
		r.required("server.auth.token.file", t.File)
	}
	if t := s.Auth.TokenReview; t != nil {
		r.tokenReview(t)
	}
	if c := s.Auth.ClientCert; c != nil {
		r.clientCert(c, s.TLS != nil)
	}
}

var serviceAccountRE = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

func (r *report) tokenReview(t *TokenReviewAuth) {
	const at = "server.auth.tokenReview"
	r.required(at+".audience", t.Audience)
	r.required(at+".caFile", t.CAFile)
	r.required(at+".tokenFile", t.TokenFile)
	if u, err := url.Parse(t.APIServer); t.APIServer != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
		r.fault(at+".apiServer", "want https://host[:port]")
	}
	seen := make(map[string]int)
	for i, a := range t.Allow {
		entry := item(at+".allow", i)
		if !serviceAccountRE.MatchString(a.ServiceAccount) {
			r.fault(entry+".serviceAccount", "want namespace/name")
		}
		r.unique(seen, a.ServiceAccount, i, at+".allow", ".serviceAccount")
	}
}

func (r *report) clientCert(c *ClientCertAuth, tls bool) {
	const at = "server.auth.clientCert"
	if !tls {
		r.fault(at, "client certificates need server.tls")
	}
	r.required(at+".caFile", c.CAFile)
	seen := make(map[string]int)
	for i, a := range c.Allow {
		entry := item(at+".allow", i)
		r.required(entry+".name", a.Name)
		r.unique(seen, a.Name, i, at+".allow", ".name")
	}
}

// ListenRule says in words what [ValidListen] wants.
const ListenRule = "want host:port, with a port of 0 to 65535"

// ValidListen reports whether addr has the form of an address to listen on. The
// host may be left out, which means all of them.
func ValidListen(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	n, convErr := strconv.Atoi(port)
	return err == nil && convErr == nil && n >= 0 && n <= 65535
}

// listen checks an address to listen on.
func (r *report) listen(at, addr string) {
	if !ValidListen(addr) {
		r.fault(at, ListenRule)
	}
}

func (r *report) required(at, value string) {
	if value == "" {
		r.fault(at, "missing")
	}
}

func (r *report) label(at, value string) {
	switch {
	case value == "":
		r.fault(at, "missing")
	case !instance.ValidLabel(value):
		r.fault(at, "%s", labelRule)
	}
}

// absolute checks an optional path on a host.
func (r *report) absolute(at, p string) {
	if p != "" && (!path.IsAbs(p) || path.Clean(p) != p || strings.ContainsFunc(p, control)) {
		r.fault(at, "want an absolute path without . or ..")
	}
}

func control(c rune) bool { return c < ' ' || c == 0x7f }

// unique adds a fault when value stood at an earlier index of list.
func (r *report) unique(seen map[string]int, value string, i int, list, field string) {
	if value == "" {
		return
	}
	if first, ok := seen[value]; ok {
		r.fault(item(list, i)+field, "the same as %s%s on line %d", item(list, first), field, r.lineOf(item(list, first)+field))
		return
	}
	seen[value] = i
}

func item(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
