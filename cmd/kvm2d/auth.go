package main

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	httpapi "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http"
)

// authenticators makes the configured ways to prove who one is. With none,
// everybody is let in: on loopback, or wherever insecure says so. reg gets
// gauges of the files that they read.
func authenticators(s config.Server, insecure bool, log *slog.Logger, reg prometheus.Registerer) ([]httpapi.Authenticator, error) {
	if err := httpapi.CheckExposure(s.Listen, s.Auth.Any(), insecure); err != nil {
		return nil, &outcome{code: exitUsage, err: err}
	}
	if !s.Auth.Any() {
		return []httpapi.Authenticator{httpapi.Anonymous{AnyHost: insecure}}, nil
	}
	var ways []httpapi.Authenticator
	if t := s.Auth.Token; t != nil {
		tokens := httpapi.NewTokenFile(t.File, log)
		// A file that is not there may be on its way; one with faults would lock everybody out.
		err := tokens.Check()
		if _, unreadable := errors.AsType[*fs.PathError](err); err != nil && !unreadable {
			return nil, &outcome{code: exitUsage, err: err}
		}
		if err := tokens.Register(reg); err != nil {
			return nil, err
		}
		ways = append(ways, tokens)
	}
	if c := s.Auth.ClientCert; c != nil {
		names := make(httpapi.ClientCert, len(c.Allow))
		for _, a := range c.Allow {
			names[a.Name] = httpapi.Role(a.Role)
		}
		ways = append(ways, names)
	}
	if t := s.Auth.TokenReview; t != nil {
		review, err := tokenReview(t, log, reg)
		if err != nil {
			return nil, err
		}
		ways = append(ways, review)
	}
	return ways, nil
}

func tokenReview(t *config.TokenReviewAuth, log *slog.Logger, reg prometheus.Registerer) (*httpapi.TokenReview, error) {
	allow := make(map[string]httpapi.Role, len(t.Allow))
	for _, a := range t.Allow {
		allow[a.ServiceAccount] = httpapi.Role(a.Role)
	}
	return httpapi.NewTokenReview(httpapi.TokenReviewOptions{
		Audience: t.Audience, Allow: allow, Server: t.APIServer, TokenFile: t.TokenFile, CAFile: t.CAFile, Log: log, Registry: reg,
	})
}
