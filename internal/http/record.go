package http

import (
	"context"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// record gathers, along one request, what its line in the log and its metrics
// tell. Only the request's own goroutine touches it.
type record struct {
	requestID string
	caller    string
	// route is set where a request is refused before the router has found it.
	route string
	// host and instance are what the request is about, as far as it is known.
	host     string
	instance string
	// skipped counts domains that a list could not read.
	skipped int

	err    error
	kind   instance.Kind
	reason instance.Reason
	// stack is where a panic came from.
	stack string
}

type recordKey struct{}

func withRecord(ctx context.Context, rec *record) context.Context {
	return context.WithValue(ctx, recordKey{}, rec)
}

// recordFrom returns the request's record; outside of one, a record that nobody reads.
func recordFrom(ctx context.Context) *record {
	if rec, ok := ctx.Value(recordKey{}).(*record); ok {
		return rec
	}
	return &record{}
}

// about notes which instance the request is about.
func (rec *record) about(host, name string) {
	rec.host, rec.instance = host, name
}

// failed notes the error that the caller was told, as p.
func (rec *record) failed(err error, p gen.Problem) {
	rec.err = err
	rec.kind, rec.reason = instance.Kind(p.Kind), instance.Reason(p.Reason)
	if p.Host != nil {
		rec.host = *p.Host
	}
}
