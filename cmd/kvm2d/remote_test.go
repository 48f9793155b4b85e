package main

import (
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

// An agent stands in for a key file on each leg of the way.
func TestConnectorOf_agentInsteadOfAKey(t *testing.T) {
	h := config.Host{
		Name: "far", URI: "qemu+ssh://kvm2d@far/system", AgentSocket: "/run/agent", KnownHostsFile: "/h",
		Jump: &config.Jump{URI: "ssh://jump@gate", AgentSocket: "/run/agent", KnownHostsFile: "/h"},
	}
	if _, err := connectorOf(h); err != nil {
		t.Error(err)
	}
	other := h
	other.AgentSocket = "/run/other"
	if sameWay(h, other) {
		t.Error("another agent counts as the same way to the host")
	}
}
