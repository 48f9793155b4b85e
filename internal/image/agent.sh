#!/bin/sh
# Makes sure that the QEMU guest agent runs: its host asks it for the machine's
# addresses. Where that cannot be done the machine works all the same, so this
# never fails, and it never waits for a package mirror for more than a few minutes.

log() { echo "kvm2d: $*"; }

have() { command -v "$1" >/dev/null 2>&1; }

# bounded SECONDS COMMAND...: with a time limit where the system can set one.
bounded() {
	limit=$1
	shift
	if have timeout; then
		timeout "$limit" "$@"
	else
		"$@"
	fi
}

agent_there() {
	have qemu-ga || [ -x /usr/sbin/qemu-ga ] || [ -x /usr/bin/qemu-ga ]
}

agent_runs() {
	for comm in /proc/[0-9]*/comm; do
		if [ "$(cat "$comm" 2>/dev/null)" = qemu-ga ]; then
			return 0
		fi
	done
	return 1
}

install_agent() {
	if have apt-get; then
		export DEBIAN_FRONTEND=noninteractive
		bounded 120 apt-get -o DPkg::Lock::Timeout=60 -q -y update
		bounded 240 apt-get -o DPkg::Lock::Timeout=60 -q -y --no-install-recommends install qemu-guest-agent
	elif have dnf; then
		bounded 300 dnf -q -y install qemu-guest-agent
	elif have apk; then
		bounded 240 apk add --no-cache qemu-guest-agent
	else
		log "no package manager that is known here"
	fi
}

start_agent() {
	if have systemctl; then
		# Static units cannot be enabled, and need not: their device starts them.
		systemctl enable qemu-guest-agent >/dev/null 2>&1
		bounded 60 systemctl start qemu-guest-agent
	elif have rc-service; then
		rc-update add qemu-guest-agent default >/dev/null 2>&1
		bounded 60 rc-service qemu-guest-agent start
	elif have service; then
		bounded 60 service qemu-guest-agent start
	else
		log "no service manager that is known here"
	fi
}

if agent_runs; then
	log "the guest agent runs"
	exit 0
fi
agent_there || install_agent
if agent_there; then
	start_agent
fi
if agent_runs; then
	log "the guest agent was started"
else
	log "the guest agent does not run; addresses are found by lease or ARP"
fi
exit 0
