// Package http serves the contract over REST: it checks who calls and what is
// asked against api/openapi.yaml, hands a validated request to the Service, and
// turns what comes back into an answer or a problem body. It knows no libvirt.
//
// The generated types (package gen) stop at convert.go.
package http
