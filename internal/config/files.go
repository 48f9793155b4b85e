package config

import (
	"errors"
	"io/fs"
	"os"
)

// SSHFiles are the checks of those files that only SSH understands. Each is
// called with files that can be read, and must not dial.
type SSHFiles struct {
	// Key says why a private key is of no use; passphraseFile may be "".
	Key func(file, passphraseFile string) error
	// KnownHosts says why a known_hosts file does not vouch for addr (host:port).
	KnownHosts func(file, addr string) error
}

// CheckFiles looks at the files that cfg names and returns what is wrong with
// them, in the order of the configuration. None of it keeps a daemon from
// starting: a Secret may be on its way, and each file is read again at use.
func (c *Config) CheckFiles(ssh SSHFiles) []Fault {
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
	key := func(at, file, passphraseFile string) {
		readable := check(at+".sshKeyFile", file)
		if passphraseFile != "" {
			readable = check(at+".passphraseFile", passphraseFile) && readable
		}
		if !readable {
			return
		}
		if err := ssh.Key(file, passphraseFile); err != nil {
			add(at+".sshKeyFile", err.Error())
		}
	}
	known := func(at, file string, end Endpoint) {
		if !check(at+".knownHostsFile", file) {
			return
		}
		if err := ssh.KnownHosts(file, end.Address()); err != nil {
			add(at+".knownHostsFile", err.Error())
		}
	}
	c.Server.eachFile(func(path, file string) { check(path, file) })
	for i, h := range c.KVM2.Hosts {
		at := item("kvm2.hosts", i)
		key(at, h.SSHKeyFile, h.PassphraseFile)
		known(at, h.KnownHostsFile, h.Endpoint())
		if j := h.Jump; j != nil {
			key(at+".jump", j.SSHKeyFile, j.PassphraseFile)
			known(at+".jump", j.KnownHostsFile, j.Endpoint())
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
