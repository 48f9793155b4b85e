package instance

import (
	"context"
	"time"
)

// Images is the cache of base disks on the hosts, and the maker of seeds.
type Images interface {
	// Ensure returns the base disk of img on host, downloading it when it is
	// not there: once per host and image, however many callers, detached from
	// all of them. A caller whose ctx ends leaves at once and the download goes
	// on. Before any volume is made, diskBytes (0: as large as the image) is
	// held against the image's virtual size (DiskTooSmall) and the room for
	// image, disk and seed is checked (PoolFull).
	// Reasons: ImageInvalid, ImageUnavailable, ChecksumMismatch, DiskTooSmall,
	// DownloadFailed, PoolFull.
	Ensure(ctx context.Context, host string, img Image, diskBytes int64) (Base, error)
	// Confirm fails with Vanished when base is no longer the marked one.
	Confirm(ctx context.Context, host string, base Base) error
	// Plan says what Ensure would do, and writes nothing.
	Plan(ctx context.Context, host string, img Image, diskBytes int64) (ImagePlan, error)
	// Status tells, per host and identity, what is there or under way.
	Status(ctx context.Context, host string, imgs []Image) ([]ImageStatus, error)
	// Pull starts a download without waiting for it.
	Pull(ctx context.Context, host string, img Image) error
	// Remove deletes the base of img (of identity, when not "") unless an
	// overlay uses it: ImageInUse. Absent is success.
	Remove(ctx context.Context, host string, img Image, identity string) error
	// Seed builds the NoCloud seed of one incarnation.
	Seed(ctx context.Context, img Image, s Seed) ([]byte, error)
}

// Base is a base disk that is whole and marked on its host.
type Base struct {
	Image    string
	Identity string
	Volume   string
	Path     string
	Format   string
	// VirtualBytes is the size of the disk that the image holds.
	VirtualBytes int64
}

// ImagePlan is what a dry run learns of an image.
type ImagePlan struct {
	State ImageState
	// DownloadBytes is what the image would take in the pool; 0 when it is there.
	DownloadBytes int64
	VirtualBytes  int64
}

// ImageState is where an image stands on a host.
type ImageState string

// The states of the contract.
const (
	ImageAbsent      ImageState = "absent"
	ImageDownloading ImageState = "downloading"
	ImageReady       ImageState = "ready"
	ImageFailed      ImageState = "failed"
)

// ImageStatus is one row of GET /images.
type ImageStatus struct {
	Image    string
	Host     string
	Identity string
	State    ImageState
	// SizeBytes and Overlays (in use) are of a ready image.
	SizeBytes int64
	Overlays  int
	// DoneBytes of TotalBytes, BytesPerSecond, StartedAt and Attempt are of a download.
	DoneBytes      int64
	TotalBytes     int64
	BytesPerSecond int64
	StartedAt      time.Time
	Attempt        int
	// Failure says why the last download failed, and Reason its word.
	Failure string
	Reason  Reason
}

// Seed is what goes into a NoCloud seed besides our own vendor data.
type Seed struct {
	// InstanceID is the domain's UUID: new for each incarnation, stable for its life.
	InstanceID string
	Hostname   string
	UserData   Secret
}
