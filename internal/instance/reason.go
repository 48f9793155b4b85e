package instance

import (
	"log/slog"
	"slices"
)

// Reason is a stable CamelCase word that says why, finer than a Kind. It is
// part of the API: problem bodies and health entries carry it, and
// docs/problems.md explains each.
type Reason string

// Reasons of errors. The kind of each is in the table below.
const (
	ReasonInstanceNotFound Reason = "InstanceNotFound"
	ReasonImageNotOnHost   Reason = "ImageNotOnHost"

	ReasonInvalidRequest       Reason = "InvalidRequest"
	ReasonMalformedID          Reason = "MalformedID"
	ReasonHostNotConfigured    Reason = "HostNotConfigured"
	ReasonUnknownPlacement     Reason = "UnknownPlacement"
	ReasonUnknownImage         Reason = "UnknownImage"
	ReasonUnknownSize          Reason = "UnknownSize"
	ReasonNameTaken            Reason = "NameTaken"
	ReasonUIDMismatch          Reason = "UIDMismatch"
	ReasonImageInUse           Reason = "ImageInUse"
	ReasonImageInvalid         Reason = "ImageInvalid"
	ReasonImageUnavailable     Reason = "ImageUnavailable"
	ReasonChecksumMismatch     Reason = "ChecksumMismatch"
	ReasonDiskTooSmall         Reason = "DiskTooSmall"
	ReasonAuthenticationFailed Reason = "AuthenticationFailed"
	ReasonHostKeyRejected      Reason = "HostKeyRejected"
	ReasonLibvirtTooOld        Reason = "LibvirtTooOld"
	ReasonPoolNotFound         Reason = "PoolNotFound"
	ReasonNetworkNotFound      Reason = "NetworkNotFound"
	ReasonFirmwareMissing      Reason = "FirmwareMissing"
	ReasonMisconfigured        Reason = "Misconfigured"
	ReasonRefusedByLibvirt     Reason = "RefusedByLibvirt"
	ReasonUnauthorized         Reason = "Unauthorized"
	ReasonForbidden            Reason = "Forbidden"
	ReasonRouteNotFound        Reason = "RouteNotFound"
	ReasonMethodNotAllowed     Reason = "MethodNotAllowed"
	ReasonBodyTooLarge         Reason = "BodyTooLarge"
	ReasonUnsupportedMediaType Reason = "UnsupportedMediaType"

	ReasonUnreachable            Reason = "Unreachable"
	ReasonTimeout                Reason = "Timeout"
	ReasonCancelled              Reason = "Cancelled"
	ReasonCredentialsUnavailable Reason = "CredentialsUnavailable"
	ReasonLibvirtUnavailable     Reason = "LibvirtUnavailable"
	ReasonHostBusy               Reason = "HostBusy"
	ReasonHostInMaintenance      Reason = "HostInMaintenance"
	ReasonPoolNotActive          Reason = "PoolNotActive"
	ReasonNetworkNotActive       Reason = "NetworkNotActive"
	ReasonVanished               Reason = "Vanished"
	ReasonDomainPaused           Reason = "DomainPaused"
	ReasonCreateInProgress       Reason = "CreateInProgress"
	ReasonCreateCancelled        Reason = "CreateCancelled"
	ReasonStartFailed            Reason = "StartFailed"
	ReasonDownloadFailed         Reason = "DownloadFailed"
	ReasonLibvirtError           Reason = "LibvirtError"
	ReasonTooManyRequests        Reason = "TooManyRequests"
	ReasonOverloaded             Reason = "Overloaded"
	ReasonShuttingDown           Reason = "ShuttingDown"
	ReasonInternal               Reason = "Internal"

	ReasonPoolFull Reason = "PoolFull"
)

// Reasons that only health entries carry, beside those errors above that a
// check can end in.
const (
	ReasonReady       Reason = "Ready"
	ReasonMaintenance Reason = "Maintenance"
)

// reasonKinds is the one table from reason to kind; a test holds it complete.
var reasonKinds = map[Reason]Kind{
	ReasonInstanceNotFound: NotFound,
	ReasonImageNotOnHost:   NotFound,

	ReasonInvalidRequest:       Permanent,
	ReasonMalformedID:          Permanent,
	ReasonHostNotConfigured:    Permanent,
	ReasonUnknownPlacement:     Permanent,
	ReasonUnknownImage:         Permanent,
	ReasonUnknownSize:          Permanent,
	ReasonNameTaken:            Permanent,
	ReasonUIDMismatch:          Permanent,
	ReasonImageInUse:           Permanent,
	ReasonImageInvalid:         Permanent,
	ReasonImageUnavailable:     Permanent,
	ReasonChecksumMismatch:     Permanent,
	ReasonDiskTooSmall:         Permanent,
	ReasonAuthenticationFailed: Permanent,
	ReasonHostKeyRejected:      Permanent,
	ReasonLibvirtTooOld:        Permanent,
	ReasonPoolNotFound:         Permanent,
	ReasonNetworkNotFound:      Permanent,
	ReasonFirmwareMissing:      Permanent,
	ReasonMisconfigured:        Permanent,
	ReasonRefusedByLibvirt:     Permanent,
	ReasonUnauthorized:         Permanent,
	ReasonForbidden:            Permanent,
	ReasonRouteNotFound:        Permanent,
	ReasonMethodNotAllowed:     Permanent,
	ReasonBodyTooLarge:         Permanent,
	ReasonUnsupportedMediaType: Permanent,

	ReasonUnreachable:            Transient,
	ReasonTimeout:                Transient,
	ReasonCancelled:              Transient,
	ReasonCredentialsUnavailable: Transient,
	ReasonLibvirtUnavailable:     Transient,
	ReasonHostBusy:               Transient,
	ReasonHostInMaintenance:      Transient,
	ReasonPoolNotActive:          Transient,
	ReasonNetworkNotActive:       Transient,
	ReasonVanished:               Transient,
	ReasonDomainPaused:           Transient,
	ReasonCreateInProgress:       Transient,
	ReasonCreateCancelled:        Transient,
	ReasonStartFailed:            Transient,
	ReasonDownloadFailed:         Transient,
	ReasonLibvirtError:           Transient,
	ReasonTooManyRequests:        Transient,
	ReasonOverloaded:             Transient,
	ReasonShuttingDown:           Transient,
	ReasonInternal:               Transient,

	ReasonPoolFull: QuotaExceeded,
}

// Kind returns the kind that goes with the reason; a reason that is in no
// table is Transient, the kind that loses nothing.
func (r Reason) Kind() Kind {
	if k, ok := reasonKinds[r]; ok {
		return k
	}
	return Transient
}

// Reasons returns every reason an error can carry, sorted. The tests hold the
// API's document, the pages for people and the metrics against it.
func Reasons() []Reason {
	all := make([]Reason, 0, len(reasonKinds))
	for r := range reasonKinds {
		all = append(all, r)
	}
	slices.Sort(all)
	return all
}

// LevelDetail is the contract's V2: details (XML sizes, the address chosen,
// retries) that even a debugging operator wants only on request.
const LevelDetail = slog.LevelDebug - 4
