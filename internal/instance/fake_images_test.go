package instance_test

import (
	"context"
	"slices"
	"sync/atomic"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	baseVolume   = "kvm2-base.debian.000000000000.00000000.qcow2"
	baseBytes    = 2 << 30
	imageBytes   = 400 << 20
	seedRoom     = 16 << 20
	testOwner    = "tester"
	testUserData = "#cloud-config\n# sentinel-7f3d9c\r\n"
)

// fakeImages keeps one image per room, as a volume.
type fakeImages struct {
	hosts fakeHosts
	hook  hook
	// confirmFails is how often Confirm still says Vanished.
	confirmFails atomic.Int64
	downloads    atomic.Int64
	userData     atomic.Value
}

var _ instance.Images = (*fakeImages)(nil)

func (f *fakeImages) do(ctx context.Context, host, call string) (after, err error) {
	if f.hook != nil {
		var before error
		if before, after = f.hook(ctx, call); before != nil {
			return nil, before
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, &instance.Error{Reason: instance.ReasonOf(err), Op: call, Host: host, Err: err}
	}
	return after, nil
}

func (f *fakeImages) room(host string) *fakeHost {
	i := slices.IndexFunc(f.hosts, func(h *fakeHost) bool { return h.name == host })
	return f.hosts[i]
}

func (f *fakeImages) Ensure(ctx context.Context, host string, img instance.Image, diskBytes int64) (instance.Base, error) {
	after, err := f.do(ctx, host, "Ensure")
	if err != nil {
		return instance.Base{}, err
	}
	r := f.room(host)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool != "" {
		return instance.Base{}, r.fail(r.pool, "ensure image", img.Name, nil)
	}
	needed := diskBytes + seedRoom
	if r.volumes[baseVolume] == nil {
		needed += imageBytes
	}
	if needed > r.available {
		return instance.Base{}, r.fail(instance.ReasonPoolFull, "check space", "pool default", nil)
	}
	if r.volumes[baseVolume] == nil {
		f.downloads.Add(1)
		r.volumes[baseVolume] = &fakeVolume{Volume: instance.Volume{Name: baseVolume, Path: "/pool/" + baseVolume}}
	}
	return instance.Base{
		Image: img.Name, Volume: baseVolume, Path: "/pool/" + baseVolume, Format: "qcow2", VirtualBytes: baseBytes,
	}, after
}

func (f *fakeImages) Confirm(ctx context.Context, host string, b instance.Base) error {
	after, err := f.do(ctx, host, "Confirm")
	if err != nil {
		return err
	}
	if f.confirmFails.Add(-1) >= 0 {
		return &instance.Error{Reason: instance.ReasonVanished, Op: "confirm image " + b.Image, Host: host}
	}
	return after
}

func (f *fakeImages) Plan(ctx context.Context, host string, _ instance.Image, _ int64) (instance.ImagePlan, error) {
	_, err := f.do(ctx, host, "Plan")
	r := f.room(host)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.volumes[baseVolume] == nil {
		return instance.ImagePlan{State: instance.ImageAbsent, DownloadBytes: imageBytes, VirtualBytes: baseBytes}, err
	}
	return instance.ImagePlan{State: instance.ImageReady, VirtualBytes: baseBytes}, err
}

func (f *fakeImages) Status(ctx context.Context, host string, imgs []instance.Image) ([]instance.ImageStatus, error) {
	_, err := f.do(ctx, host, "Status")
	var rows []instance.ImageStatus
	for _, img := range imgs {
		rows = append(rows, instance.ImageStatus{Image: img.Name, Host: host, State: instance.ImageAbsent})
	}
	return rows, err
}

func (f *fakeImages) Pull(ctx context.Context, host string, _ instance.Image) error {
	_, err := f.do(ctx, host, "Pull "+host)
	return err
}

func (f *fakeImages) Remove(ctx context.Context, host string, img instance.Image, identity string) error {
	_, err := f.do(ctx, host, "Remove "+host+" "+img.Name+" "+identity)
	return err
}

func (f *fakeImages) Seed(_ context.Context, _ instance.Image, s instance.Seed) ([]byte, error) {
	f.userData.Store(string(s.UserData))
	return append([]byte("seed of "+s.Hostname+" "+s.InstanceID+"\n"), s.UserData...), nil
}
