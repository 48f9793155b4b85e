package http

import (
	"log/slog"
	"net/http"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// statusClientLeft is what the log says of a request whose client went away
// before the answer; nobody receives it.
const statusClientLeft = 499

// answer is how a reason looks from outside.
type answer struct {
	status int
	title  string
}

// answers is the one table from reason to answer; a test holds it complete.
var answers = map[instance.Reason]answer{
	instance.ReasonInstanceNotFound: {http.StatusNotFound, "No such instance"},
	instance.ReasonImageNotOnHost:   {http.StatusNotFound, "Image not on the host"},
	instance.ReasonRouteNotFound:    {http.StatusNotFound, "No such path"},

	instance.ReasonInvalidRequest:       {http.StatusBadRequest, "Invalid request"},
	instance.ReasonMalformedID:          {http.StatusBadRequest, "Malformed id"},
	instance.ReasonUnauthorized:         {http.StatusUnauthorized, "Not authenticated"},
	instance.ReasonForbidden:            {http.StatusForbidden, "Not allowed"},
	instance.ReasonMethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed"},
	instance.ReasonBodyTooLarge:         {http.StatusRequestEntityTooLarge, "Body too large"},
	instance.ReasonUnsupportedMediaType: {http.StatusUnsupportedMediaType, "Unsupported media type"},

	instance.ReasonNameTaken:   {http.StatusConflict, "Name taken"},
	instance.ReasonUIDMismatch: {http.StatusConflict, "Another uid"},
	instance.ReasonImageInUse:  {http.StatusConflict, "Image in use"},

	instance.ReasonHostNotConfigured:    {http.StatusUnprocessableEntity, "Host not configured"},
	instance.ReasonUnknownPlacement:     {http.StatusUnprocessableEntity, "Unknown placement"},
	instance.ReasonUnknownImage:         {http.StatusUnprocessableEntity, "Unknown image"},
	instance.ReasonUnknownSize:          {http.StatusUnprocessableEntity, "Unknown size"},
	instance.ReasonImageInvalid:         {http.StatusUnprocessableEntity, "Image invalid"},
	instance.ReasonImageUnavailable:     {http.StatusUnprocessableEntity, "Image unavailable"},
	instance.ReasonChecksumMismatch:     {http.StatusUnprocessableEntity, "Checksum mismatch"},
	instance.ReasonDiskTooSmall:         {http.StatusUnprocessableEntity, "Disk too small"},
	instance.ReasonAuthenticationFailed: {http.StatusUnprocessableEntity, "Host refuses the key"},
	instance.ReasonHostKeyRejected:      {http.StatusUnprocessableEntity, "Host key rejected"},
	instance.ReasonLibvirtTooOld:        {http.StatusUnprocessableEntity, "libvirt too old"},
	instance.ReasonPoolNotFound:         {http.StatusUnprocessableEntity, "Pool not found"},
	instance.ReasonNetworkNotFound:      {http.StatusUnprocessableEntity, "Network not found"},
	instance.ReasonFirmwareMissing:      {http.StatusUnprocessableEntity, "Firmware missing"},
	instance.ReasonMisconfigured:        {http.StatusUnprocessableEntity, "Host misconfigured"},
	instance.ReasonRefusedByLibvirt:     {http.StatusUnprocessableEntity, "Refused by libvirt"},

	instance.ReasonTooManyRequests: {http.StatusTooManyRequests, "Too many requests of one caller"},
	instance.ReasonInternal:        {http.StatusInternalServerError, "Internal fault"},
	instance.ReasonTimeout:         {http.StatusGatewayTimeout, "Timed out"},

	instance.ReasonUnreachable:            {http.StatusServiceUnavailable, "Host unreachable"},
	instance.ReasonCancelled:              {http.StatusServiceUnavailable, "Cancelled"},
	instance.ReasonCredentialsUnavailable: {http.StatusServiceUnavailable, "Credentials unavailable"},
	instance.ReasonLibvirtUnavailable:     {http.StatusServiceUnavailable, "libvirt unavailable"},
	instance.ReasonHostBusy:               {http.StatusServiceUnavailable, "Host busy"},
	instance.ReasonHostInMaintenance:      {http.StatusServiceUnavailable, "Host in maintenance"},
	instance.ReasonPoolNotActive:          {http.StatusServiceUnavailable, "Pool not active"},
	instance.ReasonNetworkNotActive:       {http.StatusServiceUnavailable, "Network not active"},
	instance.ReasonVanished:               {http.StatusServiceUnavailable, "Something vanished"},
	instance.ReasonDomainPaused:           {http.StatusServiceUnavailable, "Instance paused"},
	instance.ReasonCreateInProgress:       {http.StatusServiceUnavailable, "Create in progress"},
	instance.ReasonCreateCancelled:        {http.StatusServiceUnavailable, "Create cancelled"},
	instance.ReasonStartFailed:            {http.StatusServiceUnavailable, "Start failed"},
	instance.ReasonDownloadFailed:         {http.StatusServiceUnavailable, "Download failed"},
	instance.ReasonLibvirtError:           {http.StatusServiceUnavailable, "libvirt error"},
	instance.ReasonOverloaded:             {http.StatusServiceUnavailable, "Overloaded"},
	instance.ReasonShuttingDown:           {http.StatusServiceUnavailable, "Shutting down"},

	instance.ReasonPoolFull: {http.StatusInsufficientStorage, "Pool full"},
}

// answerOf returns how r looks from outside; a reason that is in no table looks
// like Internal.
func answerOf(r instance.Reason) (instance.Reason, answer) {
	if a, ok := answers[r]; ok {
		return r, a
	}
	return instance.ReasonInternal, answers[instance.ReasonInternal]
}

// level is how loud the request's line is: a fault of our own is an error,
// everything else is somebody's ordinary day.
func level(r instance.Reason) slog.Level {
	if r == instance.ReasonInternal {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// retryAfter returns how long a caller should wait before a repeat, in whole
// seconds of at least one; 0 when repeating is no use.
func retryAfter(r instance.Reason, wanted time.Duration) time.Duration {
	if wanted > 0 {
		return max(time.Second, wanted.Round(time.Second))
	}
	switch r.Kind() {
	case instance.QuotaExceeded:
		return time.Minute
	case instance.Transient:
		return transientWait(r)
	default:
		return 0
	}
}

// transientWait is short where only our own load is in the way.
func transientWait(r instance.Reason) time.Duration {
	switch r {
	case instance.ReasonOverloaded, instance.ReasonTooManyRequests, instance.ReasonCreateInProgress:
		return time.Second
	default:
		return 5 * time.Second
	}
}

// nextStep says in the log what the caller will do about an error of that kind.
func nextStep(k instance.Kind) string {
	switch k {
	case instance.NotFound:
		return "caller forgets the instance"
	case instance.Permanent:
		return "caller stops until something is changed"
	case instance.QuotaExceeded:
		return "caller repeats slowly or goes elsewhere"
	default:
		return "caller repeats with backoff"
	}
}
