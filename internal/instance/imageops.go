package instance

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Images tells how each configured image stands on host, or on all hosts for
// "", in the order of the hosts.
//
// Reasons: HostNotConfigured, and those of Images.Status.
func (s *Service) Images(ctx context.Context, host string) ([]ImageStatus, error) {
	const op = "list images"
	configured := slices.SortedFunc(maps.Values(s.catalog.Load().Images), func(a, b Image) int {
		return strings.Compare(a.Name, b.Name)
	})
	hosts, err := s.hostsNamed(op, host)
	if err != nil {
		return nil, err
	}
	parts := make([][]ImageStatus, len(hosts))
	err = onHosts(ctx, op, hosts, func(ctx context.Context, i int, host string) (err error) {
		parts[i], err = s.images.Status(ctx, host, configured)
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(parts...), nil
}

// PullImage starts the download of a configured image to host, or to all hosts
// for "", and does not wait for it.
//
// Reasons: UnknownImage, HostNotConfigured, and those of Images.Pull.
func (s *Service) PullImage(ctx context.Context, name, host string) error {
	const op = "pull image"
	img, ok := s.catalog.Load().Images[name]
	if !ok {
		return s.unknownImage(op)
	}
	hosts, err := s.hostsNamed(op, host)
	if err != nil {
		return err
	}
	return onHosts(ctx, op, hosts, func(ctx context.Context, _ int, host string) error {
		return s.images.Pull(ctx, host, img)
	})
}

// RemoveImage removes the image's base disk from host, or from all hosts for
// "": the current content, or that of identity. An image that is no longer
// configured can still be removed by identity. Absent is success.
//
// Reasons: UnknownImage, HostNotConfigured, ImageInUse, and those of Images.Remove.
func (s *Service) RemoveImage(ctx context.Context, name, host, identity string) error {
	const op = "remove image"
	img, ok := s.catalog.Load().Images[name]
	if !ok {
		if identity == "" || !ValidLabel(name) {
			return s.unknownImage(op)
		}
		img = Image{Name: name}
	}
	hosts, err := s.hostsNamed(op, host)
	if err != nil {
		return err
	}
	return onHosts(ctx, op, hosts, func(ctx context.Context, _ int, host string) error {
		return s.images.Remove(ctx, host, img, identity)
	})
}

func (s *Service) unknownImage(op string) *Error {
	e := unknown(ReasonUnknownImage, "image", "", s.catalog.Load().Images)
	e.Op = op
	return e
}

// onHosts does one thing on several hosts side by side; the first failure counts.
func onHosts(ctx context.Context, op string, hosts []Host, do func(ctx context.Context, i int, host string) error) error {
	TrailFrom(ctx).Step(op)
	steps := make([]func(context.Context) error, 0, len(hosts))
	for i, h := range hosts {
		steps = append(steps, func(ctx context.Context) error {
			return situate(do(ctx, i, h.Name()), op, ID{Host: h.Name()})
		})
	}
	return situate(sideBySide(ctx, steps...), op, ID{})
}
