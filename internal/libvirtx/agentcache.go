package libvirtx

import (
	"slices"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// The bounds of an agentCache.
const (
	agentCacheAge  = 30 * time.Second
	agentCacheSize = 4096
)

// agentKey is one run of one domain: libvirt gives a new ID at each start.
type agentKey struct {
	uuid libvirt.UUID
	id   int32
}

// agentCache remembers for a short while what guests' agents said, for lists
// only. The zero value is ready; it is safe for concurrent use.
type agentCache struct {
	mu    sync.Mutex
	byKey map[agentKey]agentAnswer
}

type agentAnswer struct {
	addrs []instance.Address
	at    time.Time
}

// get returns an answer that is not too old.
func (c *agentCache) get(key agentKey) ([]instance.Address, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.byKey[key]
	if !ok || time.Since(a.at) > agentCacheAge {
		return nil, false
	}
	return slices.Clone(a.addrs), true
}

// put remembers an answer. A full cache first loses what is too old, then everything.
func (c *agentCache) put(key agentKey, addrs []instance.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byKey) >= agentCacheSize {
		for k, a := range c.byKey {
			if time.Since(a.at) > agentCacheAge {
				delete(c.byKey, k)
			}
		}
	}
	if c.byKey == nil || len(c.byKey) >= agentCacheSize {
		c.byKey = make(map[agentKey]agentAnswer)
	}
	c.byKey[key] = agentAnswer{addrs: slices.Clone(addrs), at: time.Now()}
}
