package http

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// authority issues certificates into files.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key = issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	return a
}

func issue(t *testing.T, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) leaf(t *testing.T, cn string, dns ...string) tls.Certificate {
	t.Helper()
	cert, key := issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: cn}, DNSNames: dns,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func pemOf(cert *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}

func writePair(t *testing.T, certPath, keyPath string, pair tls.Certificate) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, certPath, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	writeFile(t, keyPath, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

func TestTLS_clientCertificatesAndRotation(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	ca, strangerCA := newAuthority(t), newAuthority(t)
	writePair(t, path("cert"), path("key"), ca.leaf(t, "server", "localhost"))
	writeFile(t, path("ca"), pemOf(ca.cert))
	var log lockedBuffer
	registry := prometheus.NewRegistry()
	config, err := NewTLSConfig(TLSOptions{
		CertFile: path("cert"), KeyFile: path("key"), ClientCAFile: path("ca"),
		Log: slog.New(slog.NewTextHandler(&log, nil)), Registry: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, &fakeService{}, withAuth(ClientCert{"operator": RoleFull, "reader.example": RoleRead}))
	server := httptest.NewUnstartedServer(h.handler)
	server.TLS = config
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.StartTLS()
	t.Cleanup(server.Close)

	get := func(certs ...tls.Certificate) (status int, serverName string) {
		roots := x509.NewCertPool()
		roots.AddCert(ca.cert)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs, ServerName: "localhost"}}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/placements", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return 0, ""
		}
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode, res.TLS.PeerCertificates[0].Subject.CommonName
	}
	for _, c := range []struct {
		name  string
		certs []tls.Certificate
		want  int
	}{
		{"common name", []tls.Certificate{ca.leaf(t, "operator")}, 200},
		{"DNS name", []tls.Certificate{ca.leaf(t, "whoever", "reader.example")}, 200},
		{"name not allowed", []tls.Certificate{ca.leaf(t, "stranger")}, 403},
		{"no certificate", nil, 401},
		{"another CA", []tls.Certificate{strangerCA.leaf(t, "operator")}, 0}, // no handshake
	} {
		if got, _ := get(c.certs...); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}

	next := ca.leaf(t, "server 2", "localhost")
	writePair(t, path("cert"), path("key"), next)
	wantGauges(t, registry, 1, next.Leaf)
	if _, name := get(); name != "server 2" {
		t.Errorf("after a rotation the server is %q", name)
	}
	writeFile(t, path("key"), "rubbish")
	wantGauges(t, registry, 0, next.Leaf)
	if _, name := get(); name != "server 2" || !strings.Contains(log.String(), "TLS files not taken over") {
		t.Errorf("after a faulty rotation the server is %q; log %s", name, log.String())
	}
}

// wantGauges looks at what is said of the files before anybody connects.
func wantGauges(t *testing.T, registry *prometheus.Registry, inForce int, shown *x509.Certificate) {
	t.Helper()
	want := fmt.Sprintf(`
		# HELP kvm2d_files_in_force Whether the files, as they are now, are in force; else what was read before is, if anything.
		# TYPE kvm2d_files_in_force gauge
		kvm2d_files_in_force{files="tls"} %d
		# HELP kvm2d_tls_certificate_expiration_timestamp_seconds When the certificate that the API shows ends.
		# TYPE kvm2d_tls_certificate_expiration_timestamp_seconds gauge
		kvm2d_tls_certificate_expiration_timestamp_seconds %d
		# HELP kvm2d_tls_certificate_start_timestamp_seconds From when the certificate that the API shows is valid.
		# TYPE kvm2d_tls_certificate_start_timestamp_seconds gauge
		kvm2d_tls_certificate_start_timestamp_seconds %d
	`, inForce, shown.NotAfter.Unix(), shown.NotBefore.Unix())
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestNewTLSConfig_faults(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	writeFile(t, bad, sentinel)
	for _, o := range []TLSOptions{
		{CertFile: filepath.Join(dir, "none"), KeyFile: bad, Log: discardLog()},
		{CertFile: bad, KeyFile: bad, Log: discardLog()},
	} {
		if _, err := NewTLSConfig(o); err == nil || strings.Contains(err.Error(), sentinel) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
