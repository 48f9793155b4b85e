package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// call is one request.
type call struct {
	method string
	// path is as it goes over the wire, with its query.
	path   string
	header map[string]string
	body   []byte
	// anonymous leaves the token out.
	anonymous bool
}

// answer is what came back.
type answer struct {
	call   call
	status int
	header http.Header
	body   []byte
	// values are the words of the request's body that no problem may repeat.
	values []string
}

// String shows the beginning, for faults.
func (a answer) String() string {
	const shown = 300
	body := strings.TrimSpace(string(a.body))
	if len(body) > shown {
		body = body[:shown] + "…"
	}
	return fmt.Sprintf("%d %s %s", a.status, a.header.Get("Content-Type"), body)
}

func (a answer) ok() bool { return a.status >= 200 && a.status <= 299 }

// problem reads the body as far as it is one.
func (a answer) problem() problem {
	var p problem
	_ = json.Unmarshal(a.body, &p) // what is missing is judged by who asks
	return p
}

// is reports whether the answer is that problem, its shape left aside.
func (a answer) is(status int, kind, reason string) bool {
	p := a.problem()
	return a.status == status && p.Kind == kind && p.Reason == reason
}

// wire sends calls and keeps all answers.
type wire struct {
	settings Settings
	http     *http.Client
	// run is in every word of this run that a body may hold, names is how those
	// begin which a problem may repeat.
	run, names string

	mu   sync.Mutex
	seen []answer
}

func newWire(s Settings, run, names string) *wire {
	return &wire{
		settings: s,
		http: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
				TLSClientConfig:     &tls.Config{RootCAs: s.Roots, MinVersion: tls.VersionTLS12},
				MaxIdleConnsPerHost: 8, ExpectContinueTimeout: 5 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		run: run, names: names,
	}
}

func (w *wire) close() { w.http.CloseIdleConnections() }

// answers returns all answers so far.
func (w *wire) answers() []answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.seen)
}

// send sends c once. An error means that no answer came.
func (w *wire) send(ctx context.Context, c call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, w.settings.CallTimeout+patienceOf(c))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, c.method, w.settings.URL+c.path, bytes.NewReader(c.body))
	if err != nil {
		return answer{}, err
	}
	if c.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if w.settings.Token != "" && !c.anonymous {
		req.Header.Set("Authorization", "Bearer "+w.settings.Token)
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", c.method, c.path, err)
	}
	a := answer{call: c, status: resp.StatusCode, header: resp.Header, body: data, values: w.valuesOf(c.body)}
	a.call.body = nil // some are large
	w.mu.Lock()
	w.seen = append(w.seen, a)
	w.mu.Unlock()
	return a, nil
}

// valuesOf returns the words of body that are this run's own and no names.
func (w *wire) valuesOf(body []byte) []string {
	var values []string
	notInWord := func(r rune) bool {
		return !strings.ContainsRune("._:-", r) && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}
	for {
		i := bytes.Index(body, []byte(w.run))
		if i < 0 {
			return values
		}
		from := bytes.LastIndexFunc(body[:i], notInWord) + 1
		to := len(body)
		if end := bytes.IndexFunc(body[i:], notInWord); end >= 0 {
			to = i + end
		}
		if word := string(body[from:to]); !strings.HasPrefix(word, w.names) {
			values = append(values, word)
		}
		body = body[to:]
	}
}

// patienceOf returns what c asks the server to wait.
func patienceOf(c call) time.Duration {
	_, seconds, _ := strings.Cut(c.header["Prefer"], "wait=")
	n, _ := strconv.Atoi(seconds)
	return time.Duration(n) * time.Second
}

// ask sends c, and again while the answer is one that may pass, a few times: a
// busy host breaks no rule.
func (w *wire) ask(ctx context.Context, c call) (answer, error) {
	const tries = 4
	for try := 1; ; try++ {
		a, err := w.send(ctx, c)
		if err != nil || try == tries || !a.mayPass() {
			return a, err
		}
		if err := pause(ctx, a.retryAfter()); err != nil {
			return a, err
		}
	}
}

// mayPass reports whether the answer says that a repeat may fare better.
func (a answer) mayPass() bool {
	kind := a.problem().Kind
	return kind == "Transient" || kind == "QuotaExceeded"
}

// retryAfter is the pause that the answer asks for, within reason.
func (a answer) retryAfter() time.Duration {
	const least, most = 200 * time.Millisecond, 10 * time.Second
	seconds, _ := strconv.Atoi(a.header.Get("Retry-After"))
	return min(max(time.Duration(seconds)*time.Second, least), most)
}

func (w *wire) get(ctx context.Context, path string) (answer, error) {
	return w.ask(ctx, call{method: http.MethodGet, path: path})
}

func (w *wire) delete(ctx context.Context, path string) (answer, error) {
	return w.ask(ctx, call{method: http.MethodDelete, path: path})
}

// dryRun asks what a create would do.
func (w *wire) dryRun(ctx context.Context, s spec) (answer, error) {
	return w.ask(ctx, call{method: http.MethodPost, path: "/instances?dryRun=true", body: s.json()})
}

// pause waits for d or for ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
