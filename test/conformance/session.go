package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// session is one run: the instances that it made and what it knows of the
// installation.
type session struct {
	*wire
	placement placement
	offered   []placement
	version   string

	// made are the ids that may exist because of this run.
	made []string
	// first is the instance that most rules look at.
	first *specimen
	// bare is an instance without uid and tags.
	bare *specimen
	// running is a read of the first one when it had become Running.
	running answer
	// firstErr and bareErr say why there is none.
	firstErr, bareErr error
}

// specimen is an instance that the run made.
type specimen struct {
	name, path string
	spec       spec
	made       answer  // of the create that succeeded
	told       machine // in that answer
	attempts   int     // creates that it took
	after      answer  // of a read right after the create
}

// newSession finds out what is offered. It makes nothing.
func newSession(ctx context.Context, settings Settings) (*session, error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	run := "q" + hex.EncodeToString(random[:])
	s := &session{wire: newWire(settings, run, namePrefix+run)}
	a, err := s.get(ctx, "/placements")
	if err != nil {
		return nil, err
	}
	offered, err := decode[struct{ Items []placement }](a)
	if err != nil {
		return nil, err
	}
	s.offered = offered.Items
	i := slices.IndexFunc(s.offered, func(p placement) bool { return settings.Placement == "" || p.Name == settings.Placement })
	if i < 0 {
		return nil, fmt.Errorf("no placement %q is offered, of %d", settings.Placement, len(s.offered))
	}
	s.placement = s.offered[i]
	return s, nil
}

// namePrefix begins the names of all instances that any run makes.
const namePrefix = "conf-"

func (s *session) name(role string) string { return s.names + "-" + role }

func (s *session) id(name string) string {
	return "hosts/" + s.placement.Host + "/domains/" + name
}

// value is a word that no problem may repeat.
func (s *session) value(role string) string { return "v-" + s.run + "-" + role }

// least is the smallest spec of an instance.
func (s *session) least(role string) spec {
	return spec{"name": s.name(role), "placement": s.placement.Name}
}

// userData is a script without effect that holds a word which must never come
// back.
func (s *session) userData() string { return "#!/bin/sh\n# " + s.secret() + "\n" }

func (s *session) secret() string { return "secret-" + s.run }

// main returns the instance that most rules look at, and makes it at first use.
func (s *session) main(ctx context.Context) (*specimen, error) {
	if s.first == nil && s.firstErr == nil {
		s.first, s.firstErr = s.create(ctx, s.least("main").with(spec{
			"uid": s.value("uid"), "cloudInit": s.userData(),
			"tags": map[string]string{"conformance": s.value("run"), "role": "main"},
		}))
	}
	return s.first, s.firstErr
}

// withoutUID returns the instance without uid and tags.
func (s *session) withoutUID(ctx context.Context) (*specimen, error) {
	if s.bare == nil && s.bareErr == nil {
		s.bare, s.bareErr = s.create(ctx, s.least("bare"))
	}
	return s.bare, s.bareErr
}

// expect notes an instance that may come into being, for the clean-up.
func (s *session) expect(sp spec) {
	name, _ := sp["name"].(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := s.id(name); !slices.Contains(s.made, id) {
		s.made = append(s.made, id)
	}
}

// fullTries is how often a create is tried while the pool is full: room that was
// promised to others may become free, but not for ever.
const fullTries = 4

// create makes an instance and repeats as long as the server asks for it.
func (s *session) create(ctx context.Context, sp spec) (*specimen, error) {
	ctx, cancel := context.WithTimeout(ctx, s.settings.CreateTimeout)
	defer cancel()
	s.expect(sp)
	name, _ := sp["name"].(string)
	m := &specimen{name: name, path: "/instances/" + s.id(name), spec: sp}
	for full := 0; ; {
		a, err := s.send(ctx, call{
			method: http.MethodPost, path: "/instances", body: sp.json(), header: map[string]string{"Prefer": "wait=45"},
		})
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", name, err)
		}
		m.made = a
		m.attempts++
		if a.problem().Kind == "QuotaExceeded" {
			full++
		}
		if !a.mayPass() || full == fullTries {
			break
		}
		if err := pause(ctx, a.retryAfter()); err != nil {
			return nil, fmt.Errorf("create %s: not within %s: %s", name, s.settings.CreateTimeout, a)
		}
	}
	var err error
	if m.told, err = decode[machine](m.made); err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	m.after, err = s.get(ctx, m.path)
	return m, err
}

// cleanUp deletes what the run made, also when ctx has ended, and returns what
// stayed.
func (s *session) cleanUp(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpCalls*s.settings.CallTimeout)
	defer cancel()
	var left []string
	for _, id := range s.made {
		if err := s.remove(ctx, id); err != nil {
			left = append(left, fmt.Sprintf("%s: %v", id, err))
		}
	}
	return left
}

// cleanUpCalls bounds the removal of everything, in times of one call's limit.
const cleanUpCalls = 5

// remove deletes an instance and repeats as long as the server asks for it.
func (s *session) remove(ctx context.Context, id string) error {
	for {
		a, err := s.send(ctx, call{method: http.MethodDelete, path: "/instances/" + id})
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err == nil && (a.status == http.StatusNoContent || a.status == http.StatusNotFound):
			return nil
		case err == nil && a.problem().Kind != "Transient":
			return errors.New(a.String())
		}
		if err := pause(ctx, a.retryAfter()); err != nil {
			return errors.New(a.String())
		}
	}
}

// instances reads a list.
func (s *session) instances(ctx context.Context, query string) (answer, list, error) {
	a, err := s.get(ctx, "/instances"+query)
	if err != nil {
		return a, list{}, err
	}
	l, err := decode[list](a)
	return a, l, err
}
