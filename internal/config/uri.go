package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
)

// Endpoint is where a host's libvirt, or a jump server, is reached.
type Endpoint struct {
	// Local is this machine's own libvirt; the other fields are empty then.
	Local bool
	User  string
	Host  string
	Port  int
}

// Address is host:port, as net.Dial takes it.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

const (
	hostURIForm = "want qemu+ssh://user@host[:port]/system, or qemu:///system for this machine"
	jumpURIForm = "want ssh://user@host[:port]"
	sshPort     = 22
)

var (
	userRE     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	hostnameRE = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
)

// parseHostURI reads a host's uri. Errors never repeat the value: it may hold a password.
func parseHostURI(s string) (Endpoint, error) {
	u, err := url.Parse(s)
	if err != nil {
		return Endpoint{}, errors.New(hostURIForm)
	}
	switch {
	case u.Scheme == "qemu" && u.Host == "" && u.User == nil && u.Path == "/system" && bare(u):
		return Endpoint{Local: true}, nil
	case u.Scheme != "qemu+ssh":
		return Endpoint{}, errors.New(hostURIForm)
	case u.Path != "/system":
		return Endpoint{}, fmt.Errorf("the path must be /system: %s", hostURIForm)
	}
	return parseSSH(u, hostURIForm)
}

// parseJumpURI reads a jump server's uri.
func parseJumpURI(s string) (Endpoint, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "ssh" || (u.Path != "" && u.Path != "/") {
		return Endpoint{}, errors.New(jumpURIForm)
	}
	return parseSSH(u, jumpURIForm)
}

// bare reports whether u has neither query nor fragment.
func bare(u *url.URL) bool { return u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" }

func parseSSH(u *url.URL, form string) (Endpoint, error) {
	if !bare(u) {
		return Endpoint{}, fmt.Errorf("parameters after the path are keys of their own here (sshKeyFile, socket, …): %s", form)
	}
	if _, has := u.User.Password(); has {
		return Endpoint{}, errors.New("a password is not supported: use sshKeyFile")
	}
	if !userRE.MatchString(u.User.Username()) {
		return Endpoint{}, fmt.Errorf("the user is missing or malformed: %s", form)
	}
	host := u.Hostname()
	if !hostnameRE.MatchString(host) && net.ParseIP(host) == nil {
		return Endpoint{}, fmt.Errorf("the host is missing or malformed: %s", form)
	}
	port := sshPort
	if p := u.Port(); p != "" {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 {
			return Endpoint{}, errors.New("the port must be 1 to 65535")
		}
		port = n
	}
	return Endpoint{User: u.User.Username(), Host: host, Port: port}, nil
}
