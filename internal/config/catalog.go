package config

import (
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func (r *report) images(images map[string]Image) {
	for name, img := range images {
		at := join("kvm2.images", name)
		r.named(at, name)
		u, err := url.Parse(img.URL)
		switch {
		case img.URL == "":
			r.fault(at+".url", "missing")
		case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "" || u.Fragment != "":
			r.fault(at+".url", "want https://host/path or http://host/path")
		}
		if img.SHA256 != "" && img.SHA512 != "" {
			r.fault(at+".sha512", "sha256 is given too: choose one")
		}
		r.digest(at+".sha256", img.SHA256, 256)
		r.digest(at+".sha512", img.SHA512, 512)
	}
}

func (r *report) digest(at, got string, bits int) {
	if got == "" {
		if r.has(at) {
			r.fault(at, "empty: give the digest, or leave the key out")
		}
		return
	}
	raw, err := hex.DecodeString(got)
	if err != nil || len(raw) != bits/8 || got != strings.ToLower(got) {
		r.fault(at, "want %d lower-case hexadecimal digits", bits/4)
	}
}

func (r *report) sizes(sizes map[string]Size) {
	for name := range sizes {
		r.named(join("kvm2.sizes", name), name)
	}
}

func (r *report) placements(k *KVM2) {
	hosts := make([]string, 0, len(k.Hosts))
	for _, h := range k.Hosts {
		hosts = append(hosts, h.Name)
	}
	images := sortedKeys(k.Images)
	sizes := sortedKeys(k.Sizes)
	for name, p := range k.Placements {
		at := join("kvm2.placements", name)
		r.named(at, name)
		r.refers(at+".host", p.Host, "kvm2.hosts", hosts)
		r.refers(at+".image", p.Image, "kvm2.images", images)
		r.refers(at+".size", p.Size, "kvm2.sizes", sizes)
	}
}

// refers checks a reference by name. A list that could not be read is not held
// against those who refer to it.
func (r *report) refers(at, name, list string, known []string) {
	switch {
	case name == "":
		r.fault(at, "missing")
	case r.spoilt(list) || slices.Contains(known, name):
	case len(known) == 0:
		r.fault(at, "%s has no entries", list)
	default:
		r.fault(at, "not in %s: known are %s", list, strings.Join(known, ", "))
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// named checks the key of a named entry.
func (r *report) named(at, name string) {
	if !instance.ValidLabel(name) {
		r.fault(at, "the name is malformed: %s", labelRule)
	}
}

// warn lists what an operator should know of a configuration that is usable.
func warn(cfg *Config, r *report) []Fault {
	add := func(at, text string) { r.faults = append(r.faults, Fault{Path: at, Line: r.lineOf(at), Text: text}) }
	for i, h := range cfg.KVM2.Hosts {
		if h.InsecureIgnoreHostKey {
			add(item("kvm2.hosts", i)+".insecureIgnoreHostKey", "any machine can pass for this host")
		}
	}
	for name, img := range cfg.KVM2.Images {
		if img.SHA256 == "" && img.SHA512 == "" {
			add(join("kvm2.images", name), "no sha256 or sha512: what is downloaded is not checked")
		}
	}
	if len(cfg.KVM2.Placements) == 0 {
		add("kvm2.placements", "none: nothing can be created")
	}
	if t := cfg.Server.Auth.TokenReview; t != nil && len(t.Allow) == 0 {
		add("server.auth.tokenReview.allow", "empty: no ServiceAccount is let in")
	}
	if !cfg.Server.Auth.Any() && !Loopback(cfg.Server.Listen) {
		add("server.listen", "not a loopback address, and server.auth is empty: serve refuses to start without --insecure-no-auth")
	}
	return r.sorted()
}
