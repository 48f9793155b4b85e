package config

import (
	"regexp"
	"strings"
)

var (
	bridgeRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	// nameRE is for names that libvirt keeps: pools and networks.
	nameRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,62}$`)
)

func (r *report) hosts(hosts []Host) {
	const list = "kvm2.hosts"
	if len(hosts) == 0 {
		r.fault(list, "at least one host is needed")
	}
	names := make(map[string]int)
	places := make(map[string]string)
	for i := range hosts {
		h := &hosts[i]
		at := item(list, i)
		r.label(at+".name", h.Name)
		r.unique(names, h.Name, i, list, ".name")
		r.host(at, h)
		// One libvirt and pool under two names would be listed twice.
		place := strings.Join([]string{h.Endpoint().Address(), h.Socket, h.Pool}, " ")
		if first, ok := places[place]; ok && usable(h.URI) {
			r.fault(at+".uri", "the same libvirt and pool as %s", first)
		} else {
			places[place] = at
		}
	}
}

func usable(uri string) bool { _, err := parseHostURI(uri); return err == nil }

func (r *report) host(at string, h *Host) {
	switch end, err := parseHostURI(h.URI); {
	case h.URI == "":
		r.fault(at+".uri", "missing: %s", hostURIForm)
	case err != nil:
		r.fault(at+".uri", "%v", err)
	case end.Local:
		r.noSSH(at, h)
	default:
		r.ssh(at, h)
	}
	r.guests(at, h)
}

// guests checks what a host's instances are made with.
func (r *report) guests(at string, h *Host) {
	if !nameRE.MatchString(h.Pool) {
		r.fault(at+".pool", "want the name of a libvirt storage pool")
	}
	switch {
	case r.bad[at+".bridge"] || r.bad[at+".network"]:
	case h.Bridge == "" && h.Network == "":
		r.fault(at, "bridge or network is missing: instances need one of them")
	case h.Bridge != "" && h.Network != "":
		r.fault(at+".network", "bridge is given too: choose one")
	case h.Bridge != "" && !bridgeRE.MatchString(h.Bridge):
		r.fault(at+".bridge", "want the name of a bridge, at most 15 characters")
	case h.Network != "" && !nameRE.MatchString(h.Network):
		r.fault(at+".network", "want the name of a libvirt network")
	}
	r.absolute(at+".emulator", h.Emulator)
	r.absolute(at+".socket", h.Socket)
}

func (r *report) ssh(at string, h *Host) {
	r.sshKey(at, h.SSHKeyFile, h.AgentSocket)
	switch {
	case h.InsecureIgnoreHostKey && h.KnownHostsFile != "":
		r.fault(at+".insecureIgnoreHostKey", "knownHostsFile is given too: choose one")
	case !h.InsecureIgnoreHostKey && h.KnownHostsFile == "":
		r.fault(at+".knownHostsFile", "missing: the host's key must be known")
	}
	if h.Jump == nil {
		return
	}
	switch _, err := parseJumpURI(h.Jump.URI); {
	case h.Jump.URI == "":
		r.fault(at+".jump.uri", "missing: %s", jumpURIForm)
	case err != nil:
		r.fault(at+".jump.uri", "%v", err)
	}
	r.sshKey(at+".jump", h.Jump.SSHKeyFile, h.Jump.AgentSocket)
	r.required(at+".jump.knownHostsFile", h.Jump.KnownHostsFile)
}

// sshKey wants a key to log in with: a file, or an agent that holds some.
func (r *report) sshKey(at, file, agentSocket string) {
	if agentSocket == "" {
		r.required(at+".sshKeyFile", file)
	}
	r.absolute(at+".agentSocket", agentSocket)
}

// noSSH refuses the keys of SSH on a host that is reached without.
func (r *report) noSSH(at string, h *Host) {
	for key, given := range map[string]bool{
		"sshKeyFile": h.SSHKeyFile != "", "passphraseFile": h.PassphraseFile != "", "agentSocket": h.AgentSocket != "",
		"knownHostsFile": h.KnownHostsFile != "", "jump": h.Jump != nil,
		"insecureIgnoreHostKey": h.InsecureIgnoreHostKey,
	} {
		if given {
			r.fault(at+"."+key, "does not go with qemu:///system, which is reached without SSH")
		}
	}
}
