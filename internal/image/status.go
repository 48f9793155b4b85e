package image

import (
	"cmp"
	"context"
	"slices"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Plan implements instance.Images. Of a compressed raw image nobody knows the
// disk's size before it is unpacked; VirtualBytes is 0 then.
func (c *Cache) Plan(ctx context.Context, host string, img instance.Image, diskBytes int64) (instance.ImagePlan, error) {
	pool, err := c.pool(host)
	if err != nil {
		return instance.ImagePlan{}, err
	}
	k := keyOf(host, img)
	base, state, err := find(ctx, pool, k, "")
	if err != nil {
		return instance.ImagePlan{}, err
	}
	if state == marked {
		return instance.ImagePlan{State: instance.ImageReady, VirtualBytes: base.VirtualBytes}, checkDisk(k, base.VirtualBytes, diskBytes)
	}
	plan := instance.ImagePlan{State: instance.ImageAbsent}
	if f := c.flight(k); f != nil {
		plan = instance.ImagePlan{State: instance.ImageDownloading, DownloadBytes: f.leftBytes(), VirtualBytes: f.facts.virtualBytes}
	} else {
		known, err := c.probe(ctx, img)
		if err != nil {
			return instance.ImagePlan{}, onHost(err, host)
		}
		plan.DownloadBytes, plan.VirtualBytes = known.poolBytes, known.virtualBytes
	}
	return plan, checkDisk(k, plan.VirtualBytes, diskBytes)
}

// Status implements instance.Images: a row for what each image is now, and one
// for every other content that is on the host, an older one of an image or one
// of an image that is not configured any more, from one listing of the pool.
// Rows are by image, then the current content before others.
func (c *Cache) Status(ctx context.Context, host string, imgs []instance.Image) ([]instance.ImageStatus, error) {
	pool, err := c.pool(host)
	if err != nil {
		return nil, err
	}
	defer c.watch(ctx, host, pool, true)
	vols, err := listVolumes(ctx, pool, "")
	if err != nil {
		return nil, err
	}
	ready := readyRows(host, vols)
	rows := make([]instance.ImageStatus, 0, len(imgs))
	current := map[key]bool{}
	for _, img := range imgs {
		k := keyOf(host, img)
		current[k] = true
		rows = append(rows, c.currentRow(k, ready))
	}
	for k, row := range ready {
		if !current[k] {
			rows = append(rows, row)
		}
	}
	rank := func(row instance.ImageStatus) int {
		if current[key{host: host, image: row.Image, identity: row.Identity}] {
			return 0
		}
		return 1
	}
	slices.SortFunc(rows, func(a, b instance.ImageStatus) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), rank(a)-rank(b), cmp.Compare(a.Identity, b.Identity))
	})
	return rows, nil
}

// currentRow is where the configured content of an image stands.
func (c *Cache) currentRow(k key, ready map[key]instance.ImageStatus) instance.ImageStatus {
	if row, ok := ready[k]; ok {
		return row
	}
	row := instance.ImageStatus{Image: k.image, Host: k.host, Identity: k.identity, State: instance.ImageAbsent}
	c.mu.Lock()
	f, failure := c.flights[k], c.failures[k]
	c.mu.Unlock()
	switch {
	case f != nil:
		s := f.progress.read()
		row.State = instance.ImageDownloading
		row.DoneBytes, row.TotalBytes, row.BytesPerSecond = s.done, s.total, s.bytesPerSecond
		row.StartedAt, row.Attempt = s.startedAt, s.attempt
	case failure != nil:
		row.State = instance.ImageFailed
		row.Failure, row.Reason = failure.Error(), instance.ReasonOf(failure)
	}
	return row
}

// readyRows are the marked bases of a pool.
func readyRows(host string, vols []instance.Volume) map[key]instance.ImageStatus {
	byPath := map[string]instance.Volume{}
	for _, v := range vols {
		byPath[v.Path] = v
	}
	overlays := overlaysOf(vols)
	rows := map[key]instance.ImageStatus{}
	for _, v := range vols {
		n, ok := parseName(v.Name)
		base, there := byPath[v.BackingPath]
		if !ok || !n.isMarker() || !there {
			continue
		}
		rows[key{host: host, image: n.image, identity: n.identity}] = instance.ImageStatus{
			Image: n.image, Host: host, Identity: n.identity, State: instance.ImageReady,
			SizeBytes: cmp.Or(base.PhysicalBytes, base.AllocationBytes), Overlays: overlays[base.Path],
		}
	}
	return rows
}
