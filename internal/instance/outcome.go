package instance

// Created is the outcome of a Create.
type Created struct {
	Instance Instance
	// Made is true when this call's work defined the machine (201), false when
	// it was there already or another caller's work made it (200).
	Made bool
}

// Plan is the outcome of a dry run.
type Plan struct {
	Host           string
	NeededBytes    int64
	AvailableBytes int64
	ImageState     ImageState
}

// Filter narrows a List. Zero fields match everything.
type Filter struct {
	// Tags must all be there with these values.
	Tags      map[string]string
	Host      string
	Placement string
	State     State
	// Partial answers with what could be reached; without it one unreachable
	// host fails the whole list.
	Partial bool
}

// Page is the outcome of a List.
type Page struct {
	// Items are in the order of the configured hosts, then by name.
	Items       []Instance
	Unreachable []UnreachableHost
	// Skipped counts domains that vanished or could not be read.
	Skipped int
}

// UnreachableHost is a host that a partial list had to leave out.
type UnreachableHost struct {
	Host   string
	Reason Reason
}

// Report is the outcome of a Check: one entry per host in the order of the configuration.
type Report struct {
	Status HealthStatus
	Hosts  []HostHealth
}

// HealthStatus sums a Report up.
type HealthStatus string

// The three sums: every host ready, some, none.
const (
	HealthOK       HealthStatus = "ok"
	HealthDegraded HealthStatus = "degraded"
	HealthDown     HealthStatus = "down"
)
