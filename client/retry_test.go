package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetries_byMethod(t *testing.T) {
	ok := map[string]reply{
		"Create": jsonReply(200, testBody), "Get": jsonReply(200, testBody), "Delete": {status: 204},
		"ListByTag": jsonReply(200, testList), "Check": jsonReply(200, testCheck),
	}
	busy := problemReply(503, "Transient", "HostBusy")
	cases := []struct {
		name    string
		replies []reply // before the good one
		create  int     // requests that Create sends
		others  int
	}{
		{"at once", nil, 1, 1},
		{"transient once", []reply{busy}, 1, 2},
		{"transient for ever", []reply{busy, busy, busy}, 1, 3},
		{"foreign answer", []reply{{status: 502, contentType: "text/html"}}, 1, 2},
		{"no answer", []reply{{cut: true}}, 2, 2},
		{"no answer for ever", []reply{{cut: true}, {cut: true}, {cut: true}}, 3, 3},
		{"permanent", []reply{problemReply(422, "Permanent", "Misconfigured")}, 1, 1},
		{"quota", []reply{problemReply(507, "QuotaExceeded", "PoolFull")}, 1, 1},
	}
	for _, c := range cases {
		for name, call := range methods {
			t.Run(c.name+" "+name, func(t *testing.T) {
				p, s := newProvider(t, nil, append(append([]reply(nil), c.replies...), ok[name])...)
				err := call(t.Context(), p)
				want := c.others
				if name == "Create" {
					want = c.create
				}
				if got := len(s.sent()); got != want {
					t.Errorf("%d requests, want %d", got, want)
				}
				if good := want > len(c.replies); (err == nil) != good {
					t.Errorf("error %v after %d requests", err, want)
				}
			})
		}
	}
}

// tripper answers in memory, so that time can be the test's own.
type tripper func(n int, r *http.Request) (*http.Response, error)

type countingTripper struct {
	n    int
	answ tripper
}

func (c *countingTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n++
	return c.answ(c.n, r)
}

func inMemory(status int, contentType, body string, header ...string) *http.Response {
	res := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	res.Header.Set("Content-Type", contentType)
	for i := 0; i+1 < len(header); i += 2 {
		res.Header.Set(header[i], header[i+1])
	}
	return res
}

func memoryProvider(t *testing.T, answ tripper) (*Provider, *countingTripper) {
	t.Helper()
	c := &countingTripper{answ: answ}
	p, err := NewProvider(Options{Name: "edge", Server: "http://kvm2d.example", Transport: c})
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func busyAnswer(retryAfter string) *http.Response {
	r := problemReply(503, "Transient", "HostBusy")
	return inMemory(r.status, r.contentType, r.body, "Retry-After", retryAfter)
}

func TestRetryAfter_isHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		p, _ := memoryProvider(t, func(n int, _ *http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			if n < 3 {
				return busyAnswer("7"), nil
			}
			return inMemory(200, "application/json", testBody), nil
		})
		if _, err := p.Get(t.Context(), testID); err != nil {
			t.Fatal(err)
		}
		if len(at) != 3 || at[1] != 7*time.Second || at[2] != 14*time.Second {
			t.Errorf("sent at %v", at)
		}
	})
}

func TestRetryAfter_longOneIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := memoryProvider(t, func(int, *http.Request) (*http.Response, error) { return busyAnswer("300"), nil })
		_, err := p.Get(t.Context(), testID)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.RetryAfter != 5*time.Minute || c.n != 1 {
			t.Errorf("%v after %d requests", err, c.n)
		}
	})
}

func TestRetries_stayWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := memoryProvider(t, func(int, *http.Request) (*http.Response, error) { return busyAnswer("4"), nil })
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		start := time.Now()
		_, err := p.Get(ctx, testID)
		// The second pause would not fit, so the answer comes early and is the service's own.
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != "HostBusy" || c.n != 2 || time.Since(start) != 4*time.Second {
			t.Errorf("%v after %d requests and %s", err, c.n, time.Since(start))
		}
	})
}

func TestRetries_endWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := memoryProvider(t, func(int, *http.Request) (*http.Response, error) { return busyAnswer("20"), nil })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := p.Get(ctx, testID)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrTransient) || time.Since(start) != time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestAttempt_hasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := memoryProvider(t, func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done() // a black hole
			return nil, r.Context().Err()
		})
		start := time.Now()
		_, err := p.Get(t.Context(), testID)
		if took := time.Since(start); !errors.Is(err, ErrTransient) || c.n != 3 || took < 6*time.Minute || took > 7*time.Minute {
			t.Errorf("%v after %d requests and %s", err, c.n, took)
		}
	})
}

func TestToken_rereadOn401(t *testing.T) {
	refused := problemReply(401, "Permanent", "Unauthorized")
	path := tokenPath(t)
	cases := []struct {
		name     string
		age      time.Duration
		replaced bool
		replies  []reply
		requests int
		want     error
	}{
		{"replaced meanwhile", time.Hour, true, []reply{refused, jsonReply(200, testBody)}, 2, nil},
		{"replaced, refused again", time.Hour, true, []reply{refused, refused, jsonReply(200, testBody)}, 3, nil},
		{"old and wrong", time.Hour, false, []reply{refused}, 1, ErrPermanent},
		{"new and not known yet", time.Minute, false, []reply{refused}, 3, ErrTransient},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			writeToken(t, path, "old", c.age)
			p, s := newProvider(t, func(o *Options) { o.TokenFile = path }, c.replies...)
			if c.replaced {
				inner := p.doer.http.Transport
				p.doer.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					res, err := inner.RoundTrip(r)
					writeToken(t, path, "new", time.Hour)
					return res, err
				})
				t.Cleanup((&http.Client{Transport: inner}).CloseIdleConnections)
			}
			_, err := p.Get(t.Context(), testID)
			if !errors.Is(err, c.want) || len(s.sent()) != c.requests {
				t.Errorf("%v after %d requests, want %v after %d", err, len(s.sent()), c.want, c.requests)
			}
			if last := s.sent()[len(s.sent())-1].Header.Get("Authorization"); c.replaced != (last == "Bearer new") {
				t.Errorf("last token %q", last)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestToken_createIsRepeatedWhole: a create that met a rotation is sent again
// with its body.
func TestToken_createIsRepeatedWhole(t *testing.T) {
	path := tokenPath(t)
	writeToken(t, path, "old", time.Hour)
	p, s := newProvider(t, func(o *Options) { o.TokenFile = path }, problemReply(401, "Permanent", "Unauthorized"), jsonReply(201, testBody))
	p.doer.token.last = "old"
	inner := p.doer.http.Transport
	p.doer.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := inner.RoundTrip(r)
		writeToken(t, path, "new", time.Hour)
		return res, err
	})
	t.Cleanup((&http.Client{Transport: inner}).CloseIdleConnections)
	if _, err := p.Create(t.Context(), CreateRequest{Name: "proxy-1", Placement: "p", UserData: Secret("x")}); err != nil {
		t.Fatal(err)
	}
	if len(s.sent()) != 2 || s.body(0) != s.body(1) || s.body(1) == "" {
		t.Errorf("%d requests, the last with %q", len(s.sent()), s.body(1))
	}
}

func TestToken_fileProblemsAreTransient(t *testing.T) {
	path := tokenPath(t)
	p, s := newProvider(t, func(o *Options) { o.TokenFile = path }, jsonReply(200, testBody))
	for _, content := range []string{"\x00missing", "", "  \n", "two words", "a\nb", "ž"} {
		if content != "\x00missing" {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := p.Get(t.Context(), testID)
		if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrTransient) || e.Reason != ReasonTokenUnavailable {
			t.Errorf("%q: %v", content, err)
		}
	}
	if len(s.sent()) != 0 {
		t.Errorf("%d requests without a token", len(s.sent()))
	}
	writeToken(t, path, "good", 0)
	if _, err := p.Get(t.Context(), testID); err != nil {
		t.Error(err)
	}
}
