package main

import (
	"cmp"
	"strconv"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// adviceFor returns what says what to do about a reason, in the words of one
// host's configuration.
func adviceFor(cfg *config.Config, name string) func(instance.Reason) string {
	words := []string{}
	for _, h := range cfg.KVM2.Hosts {
		if h.Name == name {
			end := h.Endpoint()
			words = append(words, "USER", cmp.Or(end.User, "USER"), "HOST", end.Host, "PORT", strconv.Itoa(end.Port),
				"POOL", h.Pool, "NETWORK", h.Network)
		}
	}
	return func(r instance.Reason) string {
		text, ok := advice[r]
		if !ok {
			text = "see docs/problems.md"
		}
		return strings.NewReplacer(words...).Replace(text)
	}
}

// advice says what to do about each reason for which a host is not ready.
// docs/problems.md has more.
var advice = map[instance.Reason]string{
	instance.ReasonUnreachable:            "see that the name resolves and that sshd listens there: ssh -v -p PORT USER@HOST true, from this machine",
	instance.ReasonTimeout:                "the host or the way to it is slow or hangs: try ssh by hand, look at the host's load, raise timeouts.dial",
	instance.ReasonAuthenticationFailed:   "append the public key to ~USER/.ssh/authorized_keys on the host, and the user to the group libvirt; a key with a passphrase needs passphraseFile",
	instance.ReasonHostKeyRejected:        "compare the fingerprint at the host's own console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then correct knownHostsFile; never copy the key that the network offers",
	instance.ReasonCredentialsUnavailable: "put the key, passphrase or known_hosts file where the configuration says, readable by this user",
	instance.ReasonLibvirtUnavailable:     "on the host: systemctl status libvirtd; id USER (group libvirt); sshd -T | grep -i allowstreamlocalforwarding (must be yes)",
	instance.ReasonLibvirtTooOld:          "upgrade the host: libvirt 8.0 or newer is needed",
	instance.ReasonLibvirtError:           "the host's libvirt log has more: journalctl -u libvirtd",
	instance.ReasonPoolNotFound:           "on the host: virsh pool-list --all; define the pool, or correct pool",
	instance.ReasonPoolNotActive:          "on the host: virsh pool-start POOL; virsh pool-autostart POOL",
	instance.ReasonNetworkNotFound:        "on the host: virsh net-list --all; define the network, or correct network",
	instance.ReasonNetworkNotActive:       "on the host: virsh net-start NETWORK; virsh net-autostart NETWORK",
	instance.ReasonFirmwareMissing:        "install UEFI firmware for guests (Debian: apt-get install ovmf), or set firmware: bios for images that boot that way",
	instance.ReasonMisconfigured:          "correct what the message names: a bridge, network or emulator that the host lacks or that is stopped, or one libvirt and pool configured under two names",
	instance.ReasonMaintenance:            "nothing is wrong: the configuration says maintenance: true",
}
