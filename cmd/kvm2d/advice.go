package main

import "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"

// advice says what to do about each reason for which a host is not ready.
// docs/problems.md has more.
var advice = map[instance.Reason]string{
	instance.ReasonUnreachable:            "see that the name resolves and that sshd listens there: ssh -v USER@HOST true, from this machine",
	instance.ReasonTimeout:                "the host or the way to it is slow or hangs: try ssh by hand, look at the host's load, raise timeouts.dial",
	instance.ReasonAuthenticationFailed:   "append the public key to ~USER/.ssh/authorized_keys on the host, and the user to the group libvirt; a key with a passphrase needs passphraseFile",
	instance.ReasonHostKeyRejected:        "compare the fingerprint at the host's own console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then correct knownHostsFile; never copy the key that the network offers",
	instance.ReasonCredentialsUnavailable: "put the key, passphrase or known_hosts file where the configuration says, readable by this user",
	instance.ReasonLibvirtUnavailable:     "on the host: systemctl status libvirtd; id USER (group libvirt); sshd -T | grep -i allowstreamlocalforwarding (must be yes)",
	instance.ReasonLibvirtTooOld:          "upgrade the host: libvirt 8.0 or newer is needed",
	instance.ReasonLibvirtError:           "the host's libvirt log has more: journalctl -u libvirtd",
	instance.ReasonPoolNotFound:           "on the host: virsh pool-list --all; define the pool, or correct the key pool",
	instance.ReasonPoolNotActive:          "on the host: virsh pool-start POOL; virsh pool-autostart POOL",
	instance.ReasonNetworkNotFound:        "on the host: virsh net-list --all; define the network, or correct the key network",
	instance.ReasonNetworkNotActive:       "on the host: virsh net-start NETWORK; virsh net-autostart NETWORK",
	instance.ReasonFirmwareMissing:        "install UEFI firmware for guests (Debian: apt-get install ovmf), or set firmware: bios for images that boot that way",
	instance.ReasonMisconfigured:          "correct what the message names: a bridge or emulator that the host lacks, or one libvirt and pool configured under two names",
	instance.ReasonMaintenance:            "nothing is wrong: the configuration says maintenance: true",
}
