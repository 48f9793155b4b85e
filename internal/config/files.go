package config

import (
	"errors"
	"io/fs"
	"os"
)

// FileChecks are the checks of those files that this package cannot read. Each
// is called with files that can be read, and must not dial; its error never
// holds what is in a file.
type FileChecks struct {
	// Key says why a private key is of no use; passphraseFile may be "".
	Key func(file, passphraseFile string) error
	// KnownHosts says why a known_hosts file does not vouch for addr (host:port).
	KnownHosts func(file, addr string) error
	// Tokens says what is wrong with a file of tokens.
	Tokens func(file string) error
}

// CheckFiles looks at the files that cfg names and returns what is wrong with
// them, in the order of the configuration. A file that is missing keeps no daemon
// from starting: a Secret may be on its way, and each file is read again at use.
func (c *Config) CheckFiles(checks FileChecks) []Fault {
	l := &fileLook{FileChecks: checks, config: c}
	l.server(&c.Server)
	for i, h := range c.KVM2.Hosts {
		at := item("kvm2.hosts", i)
		l.key(at, h.SSHKeyFile, h.PassphraseFile)
		l.knownHosts(at, h.KnownHostsFile, h.Endpoint())
		if j := h.Jump; j != nil {
			l.key(at+".jump", j.SSHKeyFile, j.PassphraseFile)
			l.knownHosts(at+".jump", j.KnownHostsFile, j.Endpoint())
		}
	}
	for _, name := range sortedKeys(c.KVM2.Images) {
		l.readable(join("kvm2.images", name)+".vendorDataFile", c.KVM2.Images[name].VendorDataFile)
	}
	return l.found
}

// fileLook is one look at the files of a configuration.
type fileLook struct {
	FileChecks
	config *Config
	found  []Fault
}

func (l *fileLook) add(path, text string) {
	f := Fault{Path: path, Text: text}
	if l.config.lineOf != nil {
		f.Line = l.config.lineOf(path)
	}
	l.found = append(l.found, f)
}

// readable reports whether the file at path, if one is given, can be read.
func (l *fileLook) readable(path, file string) bool {
	if file == "" {
		return false
	}
	text := unreadableFile(file)
	if text != "" {
		l.add(path, text)
	}
	return text == ""
}

func (l *fileLook) key(at, file, passphraseFile string) {
	ok := l.readable(at+".sshKeyFile", file)
	if passphraseFile != "" {
		ok = l.readable(at+".passphraseFile", passphraseFile) && ok
	}
	if !ok {
		return
	}
	if err := l.Key(file, passphraseFile); err != nil {
		l.add(at+".sshKeyFile", err.Error())
	}
}

func (l *fileLook) knownHosts(at, file string, end Endpoint) {
	if !l.readable(at+".knownHostsFile", file) {
		return
	}
	if err := l.KnownHosts(file, end.Address()); err != nil {
		l.add(at+".knownHostsFile", err.Error())
	}
}

func (l *fileLook) server(s *Server) {
	if s.TLS != nil {
		l.readable("server.tls.certFile", s.TLS.CertFile)
		l.readable("server.tls.keyFile", s.TLS.KeyFile)
	}
	if t := s.Auth.Token; t != nil && l.readable("server.auth.token.file", t.File) {
		if err := l.Tokens(t.File); err != nil {
			l.add("server.auth.token.file", err.Error())
		}
	}
	if t := s.Auth.TokenReview; t != nil {
		l.readable("server.auth.tokenReview.caFile", t.CAFile)
		l.readable("server.auth.tokenReview.tokenFile", t.TokenFile)
	}
	if c := s.Auth.ClientCert; c != nil {
		l.readable("server.auth.clientCert.caFile", c.CAFile)
	}
}

// unreadableFile says why a file cannot be used, "" when it can.
func unreadableFile(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return whyNot(file, err)
	}
	defer func() { _ = f.Close() }()
	switch info, err := f.Stat(); {
	case err != nil:
		return whyNot(file, err)
	case !info.Mode().IsRegular():
		return file + ": not a regular file"
	case info.Size() == 0:
		return file + ": empty"
	}
	return ""
}

func whyNot(file string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file + ": no such file"
	case errors.Is(err, fs.ErrPermission):
		return file + ": no permission to read it"
	}
	return err.Error()
}
