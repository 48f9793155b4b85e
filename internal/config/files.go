package config

import (
	"errors"
	"io/fs"
	"os"

	"github.com/skeema/knownhosts"
)

// CheckFiles looks at the files that cfg names and returns what is wrong with
// them, in the order of the configuration. None of it keeps a daemon from
// starting: a Secret may be on its way, and each file is read again at use.
func (c *Config) CheckFiles() []Fault {
	var found []Fault
	add := func(path, text string) {
		f := Fault{Path: path, Text: text}
		if c.lineOf != nil {
			f.Line = c.lineOf(path)
		}
		found = append(found, f)
	}
	check := func(path, file string) bool {
		if file == "" {
			return false
		}
		text := unreadableFile(file)
		if text != "" {
			add(path, text)
		}
		return text == ""
	}
	known := func(path, file string, end Endpoint) {
		if !check(path, file) {
			return
		}
		if text := unknownHost(file, end); text != "" {
			add(path, text)
		}
	}
	c.Server.eachFile(func(path, file string) { check(path, file) })
	for i, h := range c.KVM2.Hosts {
		at := item("kvm2.hosts", i)
		check(at+".sshKeyFile", h.SSHKeyFile)
		check(at+".passphraseFile", h.PassphraseFile)
		known(at+".knownHostsFile", h.KnownHostsFile, h.Endpoint())
		if j := h.Jump; j != nil {
			check(at+".jump.sshKeyFile", j.SSHKeyFile)
			check(at+".jump.passphraseFile", j.PassphraseFile)
			known(at+".jump.knownHostsFile", j.KnownHostsFile, j.Endpoint())
		}
	}
	for _, name := range sortedKeys(c.KVM2.Images) {
		check(join("kvm2.images", name)+".vendorDataFile", c.KVM2.Images[name].VendorDataFile)
	}
	return found
}

// eachFile calls see for every file of the server block.
func (s *Server) eachFile(see func(path, file string)) {
	if s.TLS != nil {
		see("server.tls.certFile", s.TLS.CertFile)
		see("server.tls.keyFile", s.TLS.KeyFile)
	}
	if t := s.Auth.Token; t != nil {
		see("server.auth.token.file", t.File)
	}
	if t := s.Auth.TokenReview; t != nil {
		see("server.auth.tokenReview.caFile", t.CAFile)
		see("server.auth.tokenReview.tokenFile", t.TokenFile)
	}
	if c := s.Auth.ClientCert; c != nil {
		see("server.auth.clientCert.caFile", c.CAFile)
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

// unknownHost says why a known_hosts file is of no use for a host, "" when it
// has a key or a certificate authority for it. Lines that cannot be parsed are
// skipped by the reader, so a typing error shows here as a missing entry.
func unknownHost(file string, end Endpoint) string {
	db, err := knownhosts.NewDB(file)
	if err != nil {
		return err.Error()
	}
	if len(db.HostKeys(end.Address())) == 0 {
		return file + ": no entry for " + knownhosts.Normalize(end.Address())
	}
	return ""
}
