package http

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TLSOptions name the files of a TLS listener.
type TLSOptions struct {
	CertFile string
	KeyFile  string
	// ClientCAFile, when set, makes client certificates of these CAs welcome;
	// who they are is ClientCert's business.
	ClientCAFile string
	Log          *slog.Logger
	// Registry gets the gauges of the files and of the certificate's time; nil for none.
	Registry prometheus.Registerer
}

// NewTLSConfig returns a configuration (TLS 1.2 or better) whose files are read
// again when they change; a faulty change is reported and the old one stays. It
// fails when the files are no good now.
func NewTLSConfig(o TLSOptions) (*tls.Config, error) {
	files := &watchedFiles[*tls.Config]{
		paths: []string{o.CertFile, o.KeyFile}, parse: parseTLS,
		fault: func(err error) { o.Log.Warn("TLS files not taken over", "error", err) },
	}
	if o.ClientCAFile != "" {
		files.paths = append(files.paths, o.ClientCAFile)
	}
	if _, _, _, err := files.get(); err != nil {
		return nil, fmt.Errorf("TLS files: %w", err)
	}
	if err := registerTLS(o.Registry, files); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config, _, _ := files.current()
			return config, nil
		},
		NextProtos: nextProtos(),
	}, nil
}

// registerTLS adds the gauges of files; a nil reg is none.
func registerTLS(reg prometheus.Registerer, files *watchedFiles[*tls.Config]) error {
	if reg == nil {
		return nil
	}
	for _, g := range []struct {
		name, help string
		at         func(*x509.Certificate) time.Time
	}{
		{
			"kvm2d_tls_certificate_start_timestamp_seconds", "From when the certificate that the API shows is valid.",
			func(c *x509.Certificate) time.Time { return c.NotBefore },
		},
		{
			"kvm2d_tls_certificate_expiration_timestamp_seconds", "When the certificate that the API shows ends.",
			func(c *x509.Certificate) time.Time { return c.NotAfter },
		},
	} {
		err := reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help}, func() float64 {
			config, _, _ := files.current()
			return float64(g.at(config.Certificates[0].Leaf).Unix())
		}))
		if err != nil {
			return fmt.Errorf("register %s: %w", g.name, err)
		}
	}
	return files.register(reg, "tls")
}

func nextProtos() []string { return []string{"h2", "http/1.1"} }

// parseTLS takes certificate, key and, when there, client CAs.
func parseTLS(contents [][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("certificate and key: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: nextProtos()}
	if len(contents) > 2 {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return nil, errors.New("client CAs: the file holds no certificate")
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return config, nil
}
