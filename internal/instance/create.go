package instance

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// joinRetryAfter is what a caller is told whose patience ended before the work.
const joinRetryAfter = 5 * time.Second

// request is a validated Spec with everything it names looked up.
type request struct {
	spec  Spec
	id    ID
	host  Host
	image Image
	size  Size
}

// diskBytes is the root disk's size; 0 means as large as the image.
func (r request) diskBytes() int64 { return int64(r.size.DiskGiB) << 30 }

// Create makes the instance of spec, or finds it made, and returns once it is
// read back running (C1 to C10). It waits at most for patience and for ctx; the
// work goes on without the caller, bounded by Options.CreateWait, and a repeat
// with the same uid joins it. A repeat with another uid waits and then meets the
// guard.
//
// Reasons: InvalidRequest, UnknownPlacement, UnknownImage, UnknownSize,
// HostNotConfigured, NameTaken, UIDMismatch, HostInMaintenance, HostBusy,
// CreateInProgress, CreateCancelled, ShuttingDown, DomainPaused, StartFailed,
// Vanished, and those of Host and Images.
func (s *Service) Create(ctx context.Context, spec Spec, patience time.Duration) (Created, error) {
	req, err := s.resolve(spec)
	if err != nil {
		return Created{}, err
	}
	if err := ctx.Err(); err != nil {
		return Created{}, situate(err, "create instance", req.id)
	}
	patient := time.NewTimer(max(patience, 0))
	defer patient.Stop()
	for {
		c, as, err := s.joinOrStart(ctx, req)
		if err != nil {
			return Created{}, err
		}
		err = await(ctx, c, as, patient.C)
		switch {
		case err != nil:
			return Created{}, err
		case as == queued:
			continue
		case c.err != nil:
			return Created{}, c.err
		}
		created := c.result
		created.Made = created.Made && as == started
		return created, nil
	}
}

// await waits for c on the caller's own terms and hands over what its trail
// tells by then.
func await(ctx context.Context, c *creation, as role, patient <-chan time.Time) error {
	if as != started && c.span.IsValid() {
		trace.SpanFromContext(ctx).AddLink(trace.Link{SpanContext: c.span})
	}
	defer c.leave()
	defer func() { TrailFrom(ctx).Add(c.trail) }()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return situate(context.Cause(ctx), "create instance", c.id)
	case <-patient:
	}
	select {
	case <-c.done:
		return nil
	default:
	}
	step, _ := c.trail.Read()
	return &Error{
		Reason: ReasonCreateInProgress, Op: "create instance", Instance: c.id.Name, Host: c.id.Host,
		Detail: "still under way (" + cmp.Or(step, "about to begin") + "); it goes on, and a repeat joins it", RetryAfter: joinRetryAfter,
	}
}

// resolve validates spec and looks up what it names. No host is asked.
func (s *Service) resolve(spec Spec) (request, error) {
	if err := spec.validate(); err != nil {
		return request{}, err
	}
	catalog := s.catalog.Load()
	placement, ok := catalog.Placements[spec.Placement]
	if !ok {
		return request{}, unknown(ReasonUnknownPlacement, "placement", spec.Name, catalog.Placements)
	}
	if spec.Image == "" {
		spec.Image = placement.Image
	}
	if spec.Size == "" {
		spec.Size = placement.Size
	}
	req := request{spec: spec, id: ID{Host: placement.Host, Name: spec.Name}}
	if req.image, ok = catalog.Images[spec.Image]; !ok {
		return request{}, unknown(ReasonUnknownImage, "image", spec.Name, catalog.Images)
	}
	if req.image.Firmware == "" {
		req.image.Firmware = FirmwareUEFI
	}
	if req.size, ok = catalog.Sizes[spec.Size]; !ok {
		return request{}, unknown(ReasonUnknownSize, "size", spec.Name, catalog.Sizes)
	}
	var err error
	req.host, err = s.host("create instance", req.id)
	return req, err
}

// unknown names what there is instead. What was asked for is not repeated: it is
// a value of the request, and may be a secret in the wrong place.
func unknown[T any](r Reason, noun, name string, known map[string]T) *Error {
	return &Error{
		Reason: r, Op: "create instance", Instance: name,
		Detail: "unknown " + noun + "; known are " + listed(slices.Sorted(maps.Keys(known))),
	}
}
