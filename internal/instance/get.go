package instance

import "context"

// Get reads the instance from its host, addresses included (G1 to G6). Nothing
// is remembered between calls.
//
// Reasons: MalformedID, HostNotConfigured, InstanceNotFound, and those of Host.
func (s *Service) Get(ctx context.Context, id string) (Instance, error) {
	const op = "get instance"
	parsed, host, err := s.locate(op, id)
	if err != nil {
		return Instance{}, err
	}
	TrailFrom(ctx).Step("read the domain")
	m, err := s.findOurs(ctx, host.FindWithAddresses, op, parsed)
	if err != nil {
		return Instance{}, err
	}
	return s.instance(parsed.Host, m), nil
}

// locate parses an ID and finds its host.
func (s *Service) locate(op, id string) (ID, Host, error) {
	parsed, err := ParseID(id)
	if err != nil {
		return ID{}, nil, err
	}
	host, err := s.host(op, parsed)
	return parsed, host, err
}

// findOurs reads a machine; somebody else's is as good as none.
func (s *Service) findOurs(ctx context.Context, find finder, op string, id ID) (Machine, error) {
	m, err := find(ctx, id.Name)
	switch {
	case err != nil:
		return Machine{}, situate(err, op, id)
	case !s.ours(m):
		return Machine{}, &Error{
			Reason: ReasonInstanceNotFound, Op: op, Instance: id.Name, Host: id.Host,
			Detail: "no domain of ours has that name",
		}
	}
	return m, nil
}

// finder is Host.Find or Host.FindWithAddresses.
type finder func(ctx context.Context, name string) (Machine, error)
