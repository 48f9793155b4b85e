// Package client calls a kvm2d installation over REST.
//
// Provider is what an operator embeds: Create, Get, Delete, ListByTag and Check,
// with errors of four kinds (ErrNotFound, ErrPermanent, ErrTransient,
// ErrQuotaExceeded), retries, and a token file that is read again at each use.
// It takes NotFound only from kvm2d itself: a bare 404, a page of a proxy or a
// short list never makes a caller forget a machine.
//
// Everything else that the API has is reached through the generated client,
// which Provider.API returns; Provider.Answer reads what it gets.
package client
