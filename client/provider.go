package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Options are what a Provider is made of. Name and Server are required.
type Options struct {
	// Name is the provider entry's configured name; every error tells it.
	Name string
	// Server is the installation's URL; it may have a path.
	Server string
	// TokenFile holds the bearer token and is read at each use; "" sends none.
	TokenFile string
	// TLS configures https; nil trusts the system's authorities. For a client
	// certificate that is rotated set GetClientCertificate.
	TLS *tls.Config
	// Transport replaces the client's own, TLS included.
	Transport http.RoundTripper
	// Wait is how long Create lets the service wait for the machine, in whole
	// seconds; 0 leaves it to the service (50 s).
	Wait time.Duration
	// CallTimeout bounds one attempt of every call but Create; 2 min when 0.
	CallTimeout time.Duration
	// UserAgent is what the service's log calls this client.
	UserAgent string
}

const (
	defaultCallTimeout = 2 * time.Minute
	// serviceWait is how long the service waits for a create unasked.
	serviceWait = 50 * time.Second
	// createSlack is what an attempt of Create may take beyond the wait.
	createSlack = time.Minute
	// firstPause is before the first repeat; later ones double, with jitter.
	firstPause = 250 * time.Millisecond
)

// Provider makes and keeps instances at one installation. It is safe for
// concurrent use. Every error of its methods is an *Error of one of the four
// kinds. A method returns promptly when its context ends, with ErrTransient and
// the context's error in the chain; what the service has begun then goes on
// and a repeat of the call joins it.
type Provider struct {
	name  string
	doer  *doer
	api   *Client
	wait  time.Duration
	limit time.Duration
	pause time.Duration
}

// NewProvider returns a Provider; it does no I/O.
func NewProvider(o Options) (*Provider, error) {
	var errs []error
	if o.Name == "" {
		errs = append(errs, errors.New("option Name is missing"))
	}
	u, err := url.Parse(o.Server)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		errs = append(errs, errors.New("option Server must be an http or https URL without credentials"))
	}
	if o.Wait < 0 || o.CallTimeout < 0 {
		errs = append(errs, errors.New("options Wait and CallTimeout must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("kvm2 %s: %w", o.Name, err)
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = defaultCallTimeout
	}
	d := newDoer(o)
	api, err := NewClient(o.Server, WithHTTPClient(d))
	if err != nil {
		return nil, fmt.Errorf("kvm2 %s: %w", o.Name, err)
	}
	return &Provider{name: o.Name, doer: d, api: api, wait: o.Wait.Truncate(time.Second), limit: o.CallTimeout, pause: firstPause}, nil
}

// Name returns the configured name.
func (p *Provider) Name() string { return p.name }

// Close gives idle connections back. Calls under way are not touched.
func (p *Provider) Close() { p.doer.http.CloseIdleConnections() }

// API returns the generated client over this Provider's connections and token,
// for what Provider has no method for. It retries nothing, and its users check
// ids with ValidID; they hand its answers to Answer.
func (p *Provider) API() *Client { return p.api }

// Answer reads and closes what a call of API returned: a success goes into into
// (a pointer for JSON, a *[]byte for any other body, nil for none), everything
// else becomes an *Error.
func (p *Provider) Answer(op string, res *http.Response, err error, into any) error {
	e := p.attempt(context.Background(), call{
		mayBeMissing: true,
		send:         func(context.Context) (*http.Response, error) { return res, err },
		read:         func(res *http.Response, body []byte) error { return readAny(res, body, into) },
	})
	if e == nil {
		return nil
	}
	e.Provider, e.Op = p.name, op
	return e
}

// Create makes an instance, or finds the one that is there, and returns it
// once it runs; its address comes later (Get). It may be repeated after any
// error. It is sent again by itself (3 times in all) only when no answer came.
// A machine that is not up within Options.Wait is ErrTransient with reason
// CreateInProgress: repeat the call.
func (p *Provider) Create(ctx context.Context, r CreateRequest) (Instance, error) {
	var out Instance
	body := r.body()
	params := &CreateInstanceParams{}
	timeout := serviceWait + createSlack
	if p.wait > 0 {
		prefer := fmt.Sprintf("wait=%d", p.wait/time.Second)
		params.Prefer = &prefer
		timeout = p.wait + createSlack
	}
	err := p.do(ctx, call{
		op: "create " + bounded(r.Name), timeout: timeout, onlyUnanswered: true,
		send: func(ctx context.Context) (*http.Response, error) { return p.api.CreateInstance(ctx, params, body) },
		read: func(res *http.Response, b []byte) error {
			return readInstance(res, b, &out, func(in Instance) bool { return in.Name == r.Name },
				http.StatusOK, http.StatusCreated)
		},
	})
	return out, err
}

// Get reads an instance as its host has it now. ErrNotFound comes only from
// kvm2d itself. Transient errors are tried 3 times in all.
func (p *Provider) Get(ctx context.Context, id string) (Instance, error) {
	op := "get " + bounded(id)
	if !ValidID(id) {
		return Instance{}, p.malformed(op)
	}
	var out Instance
	err := p.do(ctx, call{
		op: op, timeout: p.limit, mayBeMissing: true,
		send: func(ctx context.Context) (*http.Response, error) { return p.api.GetInstance(ctx, id) },
		read: func(res *http.Response, b []byte) error {
			return readInstance(res, b, &out, func(in Instance) bool { return in.ID == id }, http.StatusOK)
		},
	})
	return out, err
}

// Delete removes an instance and returns once everything of it is gone; one
// that is not there is success. With uid, an instance of another uid is left
// alone: ErrPermanent, reason UIDMismatch. Transient errors are tried 3 times in all.
func (p *Provider) Delete(ctx context.Context, id, uid string) error {
	op := "delete " + bounded(id)
	if !ValidID(id) {
		return p.malformed(op)
	}
	params := &DeleteInstanceParams{}
	if uid != "" {
		params.UID = &uid
	}
	return p.do(ctx, call{
		op: op, timeout: p.limit,
		send: func(ctx context.Context) (*http.Response, error) { return p.api.DeleteInstance(ctx, id, params) },
		read: func(res *http.Response, _ []byte) error {
			switch {
			case res.StatusCode == http.StatusNoContent:
				return nil
			case res.StatusCode < http.StatusMultipleChoices:
				return errors.New("status 204")
			default:
				return errNoSuccess
			}
		},
	})
}

// ListByTag returns every instance that carries all of tags, or an error: never
// a part of them. Transient errors are tried 3 times in all.
func (p *Provider) ListByTag(ctx context.Context, tags map[string]string) ([]Instance, error) {
	var out InstanceList
	params := &ListInstancesParams{}
	if len(tags) > 0 {
		params.Tag = tagParameters(tags)
	}
	err := p.do(ctx, call{
		op: "list instances", timeout: p.limit,
		send: func(ctx context.Context) (*http.Response, error) { return p.api.ListInstances(ctx, params) },
		read: func(res *http.Response, b []byte) error { return readWholeList(res, b, tags, &out) },
	})
	return out.Items, err
}

// Check returns how the hosts are. That none is ready is a report with status
// down, no error. Transient errors are tried 3 times in all.
func (p *Provider) Check(ctx context.Context) (HealthReport, error) {
	var out HealthReport
	err := p.do(ctx, call{
		op: "check", timeout: p.limit,
		send: func(ctx context.Context) (*http.Response, error) { return p.api.GetHealth(ctx) },
		read: func(res *http.Response, b []byte) error { return readReport(res, b, &out) },
	})
	return out, err
}

func (p *Provider) malformed(op string) error {
	return &Error{
		Provider: p.name, Op: op, Kind: ErrPermanent, Reason: ReasonMalformedID,
		Message: "an id is hosts/<host>/domains/<name>, both lower-case DNS labels",
	}
}
