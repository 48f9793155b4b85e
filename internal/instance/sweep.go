package instance

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// sweep removes volumes of a name that no machine has: those of attempts that
// failed, lost the name or died, and what a delete left.
//
// Another daemon may be at one of these attempts, and define and start its
// machine right after anybody looked. So each loses its seed first, without
// which it does not start. Only then is the name looked up: a machine that is
// there keeps its disks, and one that is defined later never ran on what goes
// now. Whoever dies on the way leaves a whole machine, or one that never ran.
// One that is there before all that keeps its seed too.
func (s *Service) sweep(ctx context.Context, h Host, name string, volumes []Volume) error {
	volumes, err := s.unclaimed(ctx, h, name, volumes)
	if err != nil {
		return err
	}
	var seeds, placeholders, roots, others []Volume
	for _, v := range volumes {
		switch {
		case strings.HasSuffix(v.Name, seedSuffix) && isPlaceholder(v):
			// Another daemon's sweep may be about to take the root disk.
			placeholders = append(placeholders, v)
		case strings.HasSuffix(v.Name, seedSuffix):
			seeds = append(seeds, v)
		case strings.HasSuffix(v.Name, rootSuffix):
			roots = append(roots, v)
		default:
			others = append(others, v)
		}
	}
	occupied, err := s.disarm(ctx, h, namesIn(seeds), namesIn(placeholders), namesIn(roots))
	if err != nil {
		return err
	}
	rest, err := s.unclaimed(ctx, h, name, slices.Concat(roots, others))
	if err != nil {
		return err
	}
	if err := s.deleteVolumes(ctx, h, namesIn(rest)); err != nil {
		return err
	}
	return s.deleteVolumes(ctx, h, occupied)
}

// unclaimed leaves out of volumes those of the machine that has the name now.
func (s *Service) unclaimed(ctx context.Context, h Host, name string, volumes []Volume) ([]Volume, error) {
	if len(volumes) == 0 {
		return nil, nil
	}
	m, err := h.Find(ctx, name)
	if ReasonOf(err) == ReasonInstanceNotFound {
		return volumes, nil
	}
	if err != nil {
		return nil, err
	}
	own := namesOf(s.owner, name, m.UUID).prefix
	return slices.DeleteFunc(volumes, func(v Volume) bool {
		return strings.HasPrefix(v.Name, own) || v.Name == m.Overlay
	}), nil
}

// disarm takes the seeds from attempts. The name of one that an attempt with a
// root disk has still to make is occupied until the root disk is gone, by a
// placeholder of ours or of another daemon's sweep: disarm returns those names.
func (s *Service) disarm(ctx context.Context, h Host, seeds, occupied, roots []string) ([]string, error) {
	for _, root := range roots {
		seed := strings.TrimSuffix(root, rootSuffix) + seedSuffix
		if slices.Contains(seeds, seed) || slices.Contains(occupied, seed) {
			continue
		}
		ok, err := s.occupy(ctx, h, seed)
		if err != nil {
			return nil, err
		}
		if ok {
			occupied = append(occupied, seed)
		} else {
			seeds = append(seeds, seed)
		}
	}
	return occupied, s.deleteVolumes(ctx, h, seeds)
}

// placeholderFormat is the format of a volume that only occupies the name of a
// seed: a directory, on which no machine starts. The attempt may have made its
// seed, and lost it to another sweep.
const placeholderFormat = "dir"

// isPlaceholder reports whether the volume of a seed's name is not a seed.
func isPlaceholder(v Volume) bool { return v.Format == placeholderFormat }

// occupy takes the name of a seed that is not there yet, so that the attempt
// whose it is fails. It returns false when the attempt was faster. A pool that
// takes no volume of ours takes none of the attempt's.
func (s *Service) occupy(ctx context.Context, h Host, seed string) (bool, error) {
	_, err := h.CreateVolume(ctx, NewVolume{Name: seed, Format: placeholderFormat})
	switch {
	case errors.Is(err, ErrVolumeExists):
		v, err := h.Volume(ctx, seed)
		if errors.Is(err, ErrNoVolume) {
			return false, nil
		}
		return isPlaceholder(v), err
	case ReasonOf(err) == ReasonPoolFull, ReasonOf(err) == ReasonPoolNotFound:
		return true, nil
	}
	return true, err
}
