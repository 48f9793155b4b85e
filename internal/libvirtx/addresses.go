package libvirtx

import (
	"net/netip"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// usable leaves out what is no address of the guest to anybody else: loopback,
// link-local, multicast, unspecified.
func usable(ip netip.Addr) bool { return ip.IsGlobalUnicast() }

// parseAddress reads a usable address. A guest's agent says what it likes: a
// zone is any text, and an address of everybody's needs none.
func parseAddress(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	ip = ip.Unmap()
	return ip, err == nil && ip.Zone() == "" && usable(ip)
}

// maxAddresses bounds what is kept of what a guest claims to have, by source.
const maxAddresses = 64

// hasIPv4 reports whether an instance with these addresses has its IP.
func hasIPv4(addrs []instance.Address) bool {
	return slices.ContainsFunc(addrs, func(a instance.Address) bool { return a.Addr.Is4() })
}

// interfaceAddresses keeps, of what DomainInterfaceAddresses answered, the
// usable addresses of the domain's own cards: a guest's docker0 is not ours to report.
func interfaceAddresses(ifaces []libvirt.DomainInterface, source instance.AddressSource, macs []string) []instance.Address {
	var out []instance.Address
	for _, iface := range ifaces {
		mac := strings.ToLower(optString(iface.Hwaddr))
		if !slices.Contains(macs, mac) {
			continue
		}
		for _, a := range iface.Addrs {
			if ip, ok := parseAddress(a.Addr); ok && len(out) < maxAddresses {
				out = append(out, instance.Address{Addr: ip, Source: source, MAC: mac})
			}
		}
	}
	return out
}

// leaseAddresses keeps, of a network's leases, the usable addresses of the domain's own cards.
func leaseAddresses(leases []libvirt.NetworkDhcpLease, macs []string) []instance.Address {
	var out []instance.Address
	for _, lease := range leases {
		mac := strings.ToLower(optString(lease.Mac))
		if !slices.Contains(macs, mac) {
			continue
		}
		if ip, ok := parseAddress(lease.Ipaddr); ok {
			out = append(out, instance.Address{Addr: ip, Source: instance.SourceLease, MAC: mac})
		}
	}
	return out
}

// mergeAddresses joins the answers, best source first; an address that several
// sources know is kept once, from the best of them.
func mergeAddresses(sources ...[]instance.Address) []instance.Address {
	var out []instance.Address
	for _, addrs := range sources {
		for _, a := range addrs {
			known := slices.ContainsFunc(out, func(b instance.Address) bool { return b.Addr == a.Addr })
			if !known {
				out = append(out, a)
			}
		}
	}
	return out
}

// optString is "" for an absent optional string.
func optString(s libvirt.OptString) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}
