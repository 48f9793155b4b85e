package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// fleet is the configured hosts with their links, as they are now. It implements
// instance.Hosts; every answer is of one configuration, the old or the new.
type fleet struct {
	makeLink func(config.Host) (*libvirtx.Link, error)
	makeHost func(config.Host, *libvirtx.Link) (*libvirtx.Host, error)

	hosts atomic.Pointer[libvirtx.Hosts]

	// retire lets a link finish what is under way on it; close stops waiting for that.
	retire   func(*libvirtx.Link)
	hurry    context.CancelFunc
	retiring sync.WaitGroup

	// mu is held by whoever changes members.
	mu      sync.Mutex
	members map[string]member
}

// member is one host of the fleet.
type member struct {
	config config.Host
	link   *libvirtx.Link
	host   *libvirtx.Host
}

var _ instance.Hosts = (*fleet)(nil)

// newFleet makes a fleet without hosts; it outlives ctx. Close it.
func newFleet(
	ctx context.Context,
	makeLink func(config.Host) (*libvirtx.Link, error),
	makeHost func(config.Host, *libvirtx.Link) (*libvirtx.Host, error),
) *fleet {
	f := &fleet{makeLink: makeLink, makeHost: makeHost}
	f.hosts.Store(libvirtx.NewHosts(nil))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.hurry = cancel
	f.retire = func(l *libvirtx.Link) { f.retiring.Go(func() { _ = l.Retire(ctx) }) }
	return f
}

// Host returns the host of that name, false when it is not configured.
func (f *fleet) Host(name string) (instance.Host, bool) { return f.hosts.Load().Host(name) }

// All returns every host in the order of the configuration.
func (f *fleet) All() []instance.Host { return f.hosts.Load().All() }

// apply makes the fleet what is configured; it dials nothing. A host that did
// not change keeps its link and all that is known of it; one that is reached as
// before keeps its link; of any other, calls under way end on the old link. On an
// error the fleet is as it was.
func (f *fleet) apply(hosts []config.Host) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := make(map[string]member, len(hosts))
	order := make([]*libvirtx.Host, 0, len(hosts))
	for _, h := range hosts {
		m, err := f.member(h)
		if err != nil {
			closeUnshared(next, f.members)
			return fmt.Errorf("set up host %s: %w", h.Name, err)
		}
		next[h.Name] = m
		order = append(order, m.host)
	}
	f.hosts.Store(libvirtx.NewHosts(order))
	for name, old := range f.members {
		if old.link != next[name].link {
			f.retire(old.link)
		}
	}
	f.members = next
	return nil
}

// member makes what is configured of what is there. The caller holds f.mu.
func (f *fleet) member(h config.Host) (member, error) {
	old, ok := f.members[h.Name]
	if ok && reflect.DeepEqual(old.config, h) {
		return old, nil
	}
	m := member{config: h, link: old.link}
	var err error
	if !ok || !sameWay(old.config, h) {
		if m.link, err = f.makeLink(h); err != nil {
			return member{}, err
		}
	}
	if m.host, err = f.makeHost(h, m.link); err != nil {
		if m.link != old.link {
			err = errors.Join(err, m.link.Close())
		}
		return member{}, err
	}
	return m, nil
}

// sameWay reports whether a host is reached as before, whatever else changed.
func sameWay(a, b config.Host) bool {
	way := func(h config.Host) config.Host {
		return config.Host{
			URI: h.URI, SSHKeyFile: h.SSHKeyFile, PassphraseFile: h.PassphraseFile, AgentSocket: h.AgentSocket, KnownHostsFile: h.KnownHostsFile,
			InsecureIgnoreHostKey: h.InsecureIgnoreHostKey, Jump: h.Jump, Socket: h.Socket,
		}
	}
	return reflect.DeepEqual(way(a), way(b))
}

// closeUnshared closes the links of next that are not in use: nothing was
// dialled over them yet.
func closeUnshared(next, inUse map[string]member) {
	for name, m := range next {
		if m.link != inUse[name].link {
			_ = m.link.Close()
		}
	}
}

// Close closes every link, those that retire too, side by side, and waits for
// all of their goroutines. Calls under way fail.
func (f *fleet) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hurry()
	err := f.hosts.Load().Close()
	f.retiring.Wait()
	f.members = nil
	return err
}
