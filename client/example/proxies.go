// Package example is an operator's provider in a page: it keeps one egress
// proxy alive as a small VM. Copy it; it is compiled and run by the tests of
// this module, so that it stays true.
package example

import (
	"context"
	"errors"
	"fmt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

// Proxy is what the operator wants to exist.
type Proxy struct {
	Name string
	// UID is the identity of the object in the cluster: a namesake that was
	// deleted and made again has another one.
	UID       string
	CloudInit []byte
}

// State is what the operator writes into the proxy's status.
type State struct {
	// ProviderID is kept by the operator and handed back unchanged; "" while
	// there is no machine.
	ProviderID string
	// IP is "" until it is known.
	IP string
	// Retry asks to be called again soon.
	Retry bool
	// Message is for people; set when the operator has to stop.
	Message string
}

// Proxies keeps proxies at one kvm2d.
type Proxies struct {
	Provider  *client.Provider
	Placement string
	// Cluster tells this operator's machines from another's.
	Cluster string
}

// Ensure brings p into being and reports how far it is. It may be called again
// after anything: every step is safe to repeat.
func (o *Proxies) Ensure(ctx context.Context, p Proxy, had State) (State, error) {
	if had.ProviderID == "" {
		in, err := o.Provider.Create(ctx, client.CreateRequest{
			Name: p.Name, UID: p.UID, Placement: o.Placement, UserData: p.CloudInit,
			Tags: map[string]string{"cluster": o.Cluster},
		})
		if err != nil {
			return outcome(State{}, err)
		}
		return state(in), nil
	}
	in, err := o.Provider.Get(ctx, had.ProviderID)
	if errors.Is(err, client.ErrNotFound) {
		return State{Retry: true}, nil // somebody removed it: make it again
	}
	if err != nil {
		return outcome(had, err)
	}
	return state(in), nil
}

// Remove makes sure that p is gone. The uid keeps it from a namesake's machine.
func (o *Proxies) Remove(ctx context.Context, p Proxy, had State) (State, error) {
	if had.ProviderID == "" {
		return State{}, nil
	}
	if err := o.Provider.Delete(ctx, had.ProviderID, p.UID); err != nil {
		return outcome(had, err)
	}
	return State{}, nil
}

// Orphans returns the machines of this cluster that wanted does not know. An
// error means that nothing may be concluded: the list was not whole.
func (o *Proxies) Orphans(ctx context.Context, wanted func(uid string) bool) ([]string, error) {
	all, err := o.Provider.ListByTag(ctx, map[string]string{"cluster": o.Cluster})
	if err != nil {
		return nil, fmt.Errorf("list proxies: %w", err)
	}
	var ids []string
	for _, in := range all {
		if !wanted(in.UID) {
			ids = append(ids, in.ID)
		}
	}
	return ids, nil
}

func state(in client.Instance) State {
	s := State{ProviderID: in.ID, Retry: in.State == client.Provisioning}
	if in.IP != nil {
		s.IP = *in.IP
	}
	return s
}

// outcome turns an error into what the operator does: stop and show the
// message, or come back later.
func outcome(had State, err error) (State, error) {
	if errors.Is(err, client.ErrPermanent) {
		had.Message = err.Error()
		return had, nil
	}
	had.Retry = true
	return had, fmt.Errorf("reconcile: %w", err)
}
