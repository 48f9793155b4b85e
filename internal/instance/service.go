package instance

import (
	"log/slog"
	"time"
)

// Options are what a Service is made of. Every field without a default is required.
type Options struct {
	Hosts   Hosts
	Images  Images
	Catalog Catalog
	// Owner is written into marks and volume names, a DNS-1123 label.
	Owner string
	// CreateWait bounds one create's whole work, however many callers wait for it.
	CreateWait time.Duration
	// CreatesPerHost bounds the creates that work on one host at a time.
	CreatesPerHost int
	Log            *slog.Logger
}

// Created is the outcome of a Create.
type Created struct {
	Instance Instance
	// Made is true when this call's work defined the machine (201), false when
	// it was there already (200).
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
