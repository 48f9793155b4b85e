package client

import (
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
)

// doer sends one request with what each needs: the token of the moment, the
// trace of its context, our name. It follows no redirect: kvm2d has none, and
// one to a login page is not an answer.
type doer struct {
	http      *http.Client
	token     *tokenFile // nil without
	userAgent string
}

func newDoer(o Options) *doer {
	transport := o.Transport
	if transport == nil {
		transport = ownTransport(o)
	}
	d := &doer{userAgent: o.UserAgent, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if d.userAgent == "" {
		d.userAgent = "kvm2d-client"
	}
	if o.TokenFile != "" {
		d.token = &tokenFile{path: o.TokenFile}
	}
	return d
}

// ownTransport is net/http's usual one, with a pool of its own.
func ownTransport(o Options) *http.Transport {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has replaced it
		base = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	own := base.Clone()
	own.TLSClientConfig = o.TLS
	return own
}

// Do implements HttpRequestDoer. A 401 whose token has been replaced in the
// meantime is repeated once with the new one.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", d.userAgent)
	// The server continues traceparent, whatever else the program sends, and
	// whether or not it has set a propagator at all.
	otel.GetTextMapPropagator().Inject(req.Context(), propagation.HeaderCarrier(req.Header))
	propagation.TraceContext{}.Inject(req.Context(), propagation.HeaderCarrier(req.Header))
	used, err := d.authorize(req)
	if err != nil {
		return nil, err
	}
	res, err := d.http.Do(req)
	if err != nil || res.StatusCode != http.StatusUnauthorized || d.token == nil {
		return res, err
	}
	if again := d.withFreshToken(req, used); again != nil {
		_ = res.Body.Close()
		return d.http.Do(again)
	}
	return res, nil
}

// withFreshToken is req once more with the token that has replaced used; nil
// when none has, or when req cannot be sent again: then the 401 is the answer.
func (d *doer) withFreshToken(req *http.Request, used string) *http.Request {
	fresh, err := d.token.read()
	if err != nil || fresh == used {
		return nil
	}
	again, err := repeatable(req)
	if err != nil {
		return nil
	}
	again.Header.Set("Authorization", "Bearer "+fresh)
	return again
}

// authorize puts the token in and returns it.
func (d *doer) authorize(req *http.Request) (string, error) {
	if d.token == nil {
		return "", nil
	}
	token, err := d.token.read()
	if err != nil {
		return "", &Error{Kind: ErrTransient, Reason: ReasonTokenUnavailable, Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return token, nil
}

// repeatable clones a request with its body from the start.
func repeatable(req *http.Request) (*http.Request, error) {
	again := req.Clone(req.Context())
	if req.Body == nil || req.Body == http.NoBody {
		return again, nil
	}
	if req.GetBody == nil {
		return nil, http.ErrBodyReadAfterClose
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("repeat body: %w", err)
	}
	again.Body = body
	return again, nil
}
