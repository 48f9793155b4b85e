package libvirtx

import (
	"hash/maphash"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"
)

// viewCache saves lists the parsing, not the reading: a domain's XML is read
// each time, and parsed anew when its text is another than the last time. The
// zero value is ready; it is safe for concurrent use.
type viewCache struct {
	mu     sync.Mutex
	seed   maphash.Seed
	byUUID map[libvirt.UUID]cachedView
}

// cachedView is the outcome of one parse of a text with this hash and length.
type cachedView struct {
	hash   uint64
	length int
	view   domainView
}

// parse is parseDomain through the cache. What cannot be parsed is not kept.
func (c *viewCache) parse(id libvirt.UUID, doc string) (domainView, error) {
	c.mu.Lock()
	if c.byUUID == nil {
		c.seed = maphash.MakeSeed()
		c.byUUID = make(map[libvirt.UUID]cachedView)
	}
	seed := c.seed
	known, ok := c.byUUID[id]
	c.mu.Unlock()

	hash := maphash.String(seed, doc)
	if ok && known.hash == hash && known.length == len(doc) {
		return known.view, nil
	}
	view, err := parseDomain(doc)
	if err != nil {
		return domainView{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byUUID[id] = cachedView{hash: hash, length: len(doc), view: view}
	return view, nil
}

// keepOnly forgets every domain that is not among records.
func (c *viewCache) keepOnly(records []libvirt.DomainStatsRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byUUID) <= len(records) {
		return
	}
	kept := make(map[libvirt.UUID]cachedView, len(records))
	for _, r := range records {
		if v, ok := c.byUUID[r.Dom.UUID]; ok {
			kept[r.Dom.UUID] = v
		}
	}
	c.byUUID = kept
}
