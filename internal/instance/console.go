package instance

import (
	"context"
	"errors"
)

// defaultConsoleBytes is how much of the console's history is read unless asked.
const defaultConsoleBytes = 64 << 10

// Console returns the last maxBytes (64 KiB when not positive) of what the
// instance wrote to its serial console, also when it is stopped. A machine that
// has written nothing yet has an empty history.
//
// Reasons: as Get's.
func (s *Service) Console(ctx context.Context, id string, maxBytes int64) ([]byte, error) {
	const op = "read console"
	parsed, host, err := s.locate(op, id)
	if err != nil {
		return nil, err
	}
	if maxBytes <= 0 {
		maxBytes = defaultConsoleBytes
	}
	TrailFrom(ctx).Step("look up the domain")
	m, err := s.findOurs(ctx, host.Find, op, parsed)
	if err != nil {
		return nil, err
	}
	TrailFrom(ctx).Step("read the console's log")
	history, err := host.ReadVolume(ctx, namesOf(s.owner, m.Name, m.UUID).console, maxBytes)
	if errors.Is(err, ErrNoVolume) {
		return nil, nil
	}
	return history, situate(err, op, parsed)
}
