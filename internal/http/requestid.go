package http

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"regexp"
)

var requestIDRE = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// RequestID returns the id of the request that ctx, or the work that it started,
// belongs to; "" outside of one.
func RequestID(ctx context.Context) string { return recordFrom(ctx).requestID }

// requestID takes the caller's X-Request-Id or, when it is absent or of another
// shape, makes one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); requestIDRE.MatchString(id) {
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
