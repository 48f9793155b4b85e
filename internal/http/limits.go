package http

import (
	"net/http"
	"sync"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// limitInFlight answers 503 at once when n requests are under way: a caller
// that is told can go elsewhere, one in an endless queue cannot.
func limitInFlight(n int) func(http.Handler) http.Handler {
	slots := make(chan struct{}, n)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				next.ServeHTTP(w, r)
			default:
				fail(w, r, instance.Errorf(instance.ReasonOverloaded, "too many requests are under way"))
			}
		})
	}
}

// callerShare keeps one caller from taking every slot.
type callerShare struct {
	limit int

	mu    sync.Mutex
	under map[string]int
}

func newCallerShare(limit int) *callerShare {
	return &callerShare{limit: limit, under: map[string]int{}}
}

func (s *callerShare) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := recordFrom(r.Context()).caller
		if caller == anonymousName {
			next.ServeHTTP(w, r)
			return
		}
		if !s.enter(caller) {
			fail(w, r, instance.Errorf(instance.ReasonTooManyRequests, "too many requests of this caller are under way"))
			return
		}
		defer s.leave(caller)
		next.ServeHTTP(w, r)
	})
}

func (s *callerShare) enter(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under[caller] >= s.limit {
		return false
	}
	s.under[caller]++
	return true
}

func (s *callerShare) leave(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under[caller]--
	if s.under[caller] == 0 {
		delete(s.under, caller)
	}
}
