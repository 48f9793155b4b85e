package main

import (
	"log/slog"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	httpapi "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// realBackends reach hosts over SSH or, for this machine, over its socket.
func realBackends() backends { return backends{connector: connectorOf} }

func connectorOf(h config.Host) (libvirtx.Connector, error) {
	end := h.Endpoint()
	if end.Local {
		return libvirtx.NewLocalConnector(libvirtx.LocalOptions{Socket: h.Socket}), nil
	}
	o := libvirtx.SSHOptions{
		SSHEndpoint: libvirtx.SSHEndpoint{
			Addr: end.Address(), User: end.User, KeyFile: h.SSHKeyFile, PassphraseFile: h.PassphraseFile, AgentSocket: h.AgentSocket,
			KnownHostsFile: h.KnownHostsFile, InsecureIgnoreHostKey: h.InsecureIgnoreHostKey,
		},
		Socket: h.Socket,
	}
	if j := h.Jump; j != nil {
		end := j.Endpoint()
		o.Jump = &libvirtx.SSHEndpoint{
			Addr: end.Address(), User: end.User, KeyFile: j.SSHKeyFile, PassphraseFile: j.PassphraseFile,
			AgentSocket: j.AgentSocket, KnownHostsFile: j.KnownHostsFile,
		}
	}
	return libvirtx.NewSSHConnector(o)
}

// fileChecks look at the configuration's files as those do who use them.
var fileChecks = config.FileChecks{
	Key: libvirtx.CheckKey, KnownHosts: libvirtx.CheckKnownHosts,
	Tokens: func(file string) error { return httpapi.NewTokenFile(file, slog.New(slog.DiscardHandler)).Check() },
}
