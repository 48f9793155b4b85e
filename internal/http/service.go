package http

import (
	"context"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Service is what the handlers ask of the contract's implementation. Every
// method is safe for concurrent use, returns promptly once ctx ended, and fails
// with an *instance.Error.
type Service interface {
	Instances
	Images
	// Check looks at every host. It never fails: what went wrong is in the report.
	Check(ctx context.Context) instance.Report
	// Placements are what a create may name, in a stable order.
	Placements() []instance.Placement
}

// Instances are the calls on instances. Any may fail with any reason of kind
// Transient, and with the Permanent ones that a host's own faults have.
type Instances interface {
	// Create waits at most patience for the machine to run, then fails with
	// CreateInProgress while the work goes on. Permanent: InvalidRequest,
	// Unknown…, NameTaken, UIDMismatch, Image…. QuotaExceeded: PoolFull.
	Create(ctx context.Context, spec instance.Spec, patience time.Duration) (instance.Created, error)
	// DryRun checks what Create would and makes nothing; the same reasons.
	DryRun(ctx context.Context, spec instance.Spec) (instance.Plan, error)
	// Get reads one. NotFound: InstanceNotFound. Permanent: MalformedID, HostNotConfigured.
	Get(ctx context.Context, id string) (instance.Instance, error)
	// Delete removes one; uid "" is unguarded. Permanent: MalformedID, NameTaken, UIDMismatch, Misconfigured.
	Delete(ctx context.Context, id, uid string) error
	// List reads all that match. Permanent: HostNotConfigured.
	List(ctx context.Context, f instance.Filter) (instance.Page, error)
	// Console returns the last maxBytes of the serial console's history. NotFound: InstanceNotFound.
	Console(ctx context.Context, id string, maxBytes int64) ([]byte, error)
}

// Images are the calls on base images; host "" means every host. Permanent:
// UnknownImage, HostNotConfigured.
type Images interface {
	// Images tells what is there or on its way.
	Images(ctx context.Context, host string) ([]instance.ImageStatus, error)
	// PullImage starts a download and does not wait for it. QuotaExceeded: PoolFull.
	PullImage(ctx context.Context, name, host string) error
	// RemoveImage deletes the content of that identity, the configured one for "". Permanent: ImageInUse.
	RemoveImage(ctx context.Context, name, host, identity string) error
}
