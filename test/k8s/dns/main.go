//go:build cluster

// Command dns is CoreDNS with the plugins that a test cluster needs: names of Services, and of machines outside.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	// The order in which a query passes the plugins.
	dnsserver.Directives = []string{"bind", "errors", "cache", "hosts", "kubernetes"}
	coremain.Run()
}
