package libvirtx

import (
	"errors"
	"sync"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Hosts are the configured hosts by name. It implements instance.Hosts.
type Hosts struct {
	all    []instance.Host
	byName map[string]*Host
}

var _ instance.Hosts = (*Hosts)(nil)

// NewHosts keeps hosts in the order given, that of the configuration, which
// has made sure that names are unique.
func NewHosts(hosts []*Host) *Hosts {
	out := &Hosts{
		all:    make([]instance.Host, 0, len(hosts)),
		byName: make(map[string]*Host, len(hosts)),
	}
	for _, h := range hosts {
		out.all = append(out.all, h)
		out.byName[h.Name()] = h
	}
	return out
}

// Host returns the host of that name, false when it is not configured.
func (hs *Hosts) Host(name string) (instance.Host, bool) {
	h, ok := hs.byName[name]
	if !ok {
		return nil, false
	}
	return h, true
}

// All returns every host in the order of the configuration.
func (hs *Hosts) All() []instance.Host { return hs.all }

// Close closes every host's link side by side and waits for all of them.
func (hs *Hosts) Close() error {
	errs := make([]error, 0, len(hs.byName))
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	for _, h := range hs.byName {
		wg.Go(func() {
			err := h.link.Close()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
