package instance

import "context"

// DryRun tells what a Create of spec would meet: everything that Create checks
// before its first volume is checked, the room included, and nothing is
// written. An instance that is there already needs no room.
//
// Reasons: as Create's, up to the first volume.
func (s *Service) DryRun(ctx context.Context, spec Spec) (Plan, error) {
	req, err := s.resolve(spec)
	if err != nil {
		return Plan{}, err
	}
	plan, err := s.plan(ctx, req)
	return plan, vanished(situate(err, "plan instance", req.id))
}

func (s *Service) plan(ctx context.Context, req request) (Plan, error) {
	exists, err := s.wouldAdopt(ctx, req)
	if err != nil {
		return Plan{}, err
	}
	if !exists && req.host.InMaintenance() {
		return Plan{}, inMaintenance()
	}
	TrailFrom(ctx).Step("check host, image and room")
	var image ImagePlan
	var available int64
	steps := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			image, err = s.images.Plan(ctx, req.id.Host, req.image, req.diskBytes())
			return err
		},
		func(ctx context.Context) (err error) {
			// Nothing is asked for yet: what is granted would count against others.
			available, err = req.host.CheckSpace(ctx, 0)
			return err
		},
	}
	if !exists {
		steps = append(steps, func(ctx context.Context) error { return req.host.Preflight(ctx, req.image.Firmware) })
	}
	if err := sideBySide(ctx, steps...); err != nil {
		return Plan{}, err
	}
	plan := Plan{Host: req.id.Host, AvailableBytes: available, ImageState: image.State}
	if exists {
		return plan, nil
	}
	disk := req.diskBytes()
	if disk == 0 {
		disk = image.VirtualBytes
	}
	plan.NeededBytes = image.DownloadBytes + disk + seedAllowance
	if plan.NeededBytes > available {
		// The host words the refusal; it knows its pool.
		plan.AvailableBytes, err = req.host.CheckSpace(ctx, plan.NeededBytes)
	}
	return plan, err
}

// wouldAdopt applies Create's guards to what has the name: true for an instance
// that Create would answer with or wake.
func (s *Service) wouldAdopt(ctx context.Context, req request) (bool, error) {
	TrailFrom(ctx).Step("look up the name")
	m, err := req.host.Find(ctx, req.id.Name)
	switch {
	case ReasonOf(err) == ReasonInstanceNotFound:
		return false, nil
	case err != nil:
		return false, err
	case !s.ours(m):
		return false, taken("plan instance", req.id)
	case m.Mark.Deleting:
		return false, nil
	case m.Mark.UID != "" && m.Mark.UID != req.spec.UID:
		return false, mismatch("plan instance", req.id)
	case m.Power == PowerPaused:
		return false, paused(m)
	}
	return m.Persistent, nil
}
