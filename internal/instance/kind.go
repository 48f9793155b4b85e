package instance

// Kind is the coarse class of an error, and the only thing a caller needs in
// order to decide what to do next. A Kind is itself an error, so that
// errors.Is(err, instance.NotFound) works on anything this package returns.
type Kind string

// The four kinds of the contract.
const (
	// NotFound: the instance does not exist; the caller forgets it.
	NotFound Kind = "NotFound"
	// Permanent: repeating will not help; the caller stops and shows the message.
	Permanent Kind = "Permanent"
	// Transient: the caller retries with backoff.
	Transient Kind = "Transient"
	// QuotaExceeded: the caller retries slowly or goes elsewhere.
	QuotaExceeded Kind = "QuotaExceeded"
)

// Error makes a Kind usable as a target of errors.Is.
func (k Kind) Error() string { return string(k) }
