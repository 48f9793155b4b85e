package http

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
)

// TLSOptions name the files of a TLS listener.
type TLSOptions struct {
	CertFile string
	KeyFile  string
	// ClientCAFile, when set, makes client certificates of these CAs welcome;
	// who they are is ClientCert's business.
	ClientCAFile string
	Log          *slog.Logger
}

// NewTLSConfig returns a configuration (TLS 1.2 or better) whose files are read
// again when they change; a faulty change is reported and the old one stays. It
// fails when the files are no good now.
func NewTLSConfig(o TLSOptions) (*tls.Config, error) {
	files := &watchedFiles[*tls.Config]{paths: []string{o.CertFile, o.KeyFile}, parse: parseTLS}
	if o.ClientCAFile != "" {
		files.paths = append(files.paths, o.ClientCAFile)
	}
	if _, _, _, err := files.get(); err != nil {
		return nil, fmt.Errorf("TLS files: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config, _, fresh, err := files.get()
			if err != nil && fresh {
				o.Log.Warn("TLS files not taken over", "error", err)
			}
			return config, nil
		},
		NextProtos: nextProtos(),
	}, nil
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
