package http

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestGate_roles(t *testing.T) {
	cases := []struct {
		role           Role
		method, target string
		want           int
	}{
		{RoleRead, http.MethodGet, "/placements", 200},
		{RoleRead, http.MethodHead, "/placements", 200},
		{RoleRead, http.MethodPost, "/images/a/pull", 403},
		{RoleRead, http.MethodDelete, "/instances/hosts/h/domains/a", 403},
		{RoleRead, http.MethodPut, "/placements", 403},
		{RoleFull, http.MethodPost, "/images/a/pull", 202},
		{RoleFull, http.MethodDelete, "/instances/hosts/h/domains/a", 204},
		{"", http.MethodGet, "/placements", 403},
	}
	for _, c := range cases {
		h := newHarness(t, &fakeService{}, withAuth(tokenAuth{testToken, Principal{Name: "x", Role: c.role}}))
		if w := h.do(request(c.method, c.target, "")); w.Code != c.want {
			t.Errorf("%s %s as %q: got %d, want %d", c.method, c.target, c.role, w.Code, c.want)
		}
	}
}

// TestGate_beforeEverythingElse: who is unknown learns nothing, and costs no
// validation.
func TestGate_beforeEverythingElse(t *testing.T) {
	h := newHarness(t, &fakeService{}, func(o *Options) { o.MaxBodyBytes = 4 })
	for _, r := range []*http.Request{
		request(http.MethodGet, "/nope", ""),
		request(http.MethodGet, "/instances/..", ""),
		request(http.MethodPut, "/health", ""),
		request(http.MethodPost, "/instances", `{"much":"too long"}`),
		request(http.MethodGet, "/health?surprise=1", ""),
	} {
		r.Header.Set("Authorization", "Bearer wrong")
		w := h.do(r)
		wantProblem(t, w, http.StatusUnauthorized, instance.ReasonUnauthorized)
		if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="kvm2d"` {
			t.Errorf("WWW-Authenticate = %q", got)
		}
	}
}

func TestGate_schemes(t *testing.T) {
	h := newHarness(t, &fakeService{})
	for header, want := range map[string]int{
		"Bearer " + testToken:  200,
		"bearer  " + testToken: 200,
		"Basic " + testToken:   401,
		testToken:              401,
		"Bearer":               401,
		"Bearer ":              401,
		"":                     401,
	} {
		r := request(http.MethodGet, "/placements", "")
		r.Header.Set("Authorization", header)
		if w := h.do(r); w.Code != want {
			t.Errorf("Authorization %q: got %d, want %d", header, w.Code, want)
		}
	}
}

func TestGate_oneThatKnowsWins(t *testing.T) {
	down := refusing{instance.Errorf(instance.ReasonCredentialsUnavailable, "down")}
	h := newHarness(t, &fakeService{}, func(o *Options) { o.Auth = append([]Authenticator{down}, o.Auth...) })
	if w := h.do(request(http.MethodGet, "/placements", "")); w.Code != 200 {
		t.Errorf("known token beside a broken authenticator: %d", w.Code)
	}
	r := request(http.MethodGet, "/placements", "")
	r.Header.Set("Authorization", "Bearer other")
	wantProblem(t, h.do(r), http.StatusServiceUnavailable, instance.ReasonCredentialsUnavailable)
}

func authenticate(t *testing.T, a Authenticator, token string) (string, bool) {
	t.Helper()
	p, ok, err := a.Authenticate(context.Background(), Credentials{Token: token})
	if err != nil {
		t.Fatalf("authenticate: %v", err)
	}
	return p.Name, ok
}

func TestTokenFile_rereadOnChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, path, "# callers\n\noperator full alpha\n  viewer\tread beta  \n")
	var log lockedBuffer
	a := NewTokenFile(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	if name, ok := authenticate(t, a, "alpha"); !ok || name != "operator" {
		t.Errorf("alpha is %q, %v", name, ok)
	}
	if name, ok := authenticate(t, a, "beta"); !ok || name != "viewer" {
		t.Errorf("beta is %q, %v", name, ok)
	}
	for _, wrong := range []string{"", "alph", "alphaa", "operator", "gamma"} {
		if name, ok := authenticate(t, a, wrong); ok {
			t.Errorf("%q is %q", wrong, name)
		}
	}

	writeFile(t, path, "operator full gamma\n") // in place, maybe within the clock's grain
	if _, ok := authenticate(t, a, "alpha"); ok {
		t.Error("the old token still works")
	}
	if _, ok := authenticate(t, a, "gamma"); !ok {
		t.Error("the new token does not work")
	}

	other := filepath.Join(t.TempDir(), "next") // as a Secret volume does it
	writeFile(t, other, "operator full delta\n")
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if _, ok := authenticate(t, a, "delta"); !ok {
		t.Error("the token of a replaced file does not work")
	}

	writeFile(t, path, "operator omnipotent epsilon\n")
	for range 3 {
		if _, ok := authenticate(t, a, "delta"); !ok {
			t.Error("a faulty file took the good tokens away")
		}
	}
	if got := strings.Count(log.String(), "token file not taken over"); got != 1 {
		t.Errorf("the fault was reported %d times:\n%s", got, log.String())
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, ok, err := a.Authenticate(context.Background(), Credentials{Token: "delta"})
	if ok || instance.ReasonOf(err) != instance.ReasonCredentialsUnavailable {
		t.Errorf("without the file: ok %v, %v", ok, err)
	}
}

func TestTokenFile_faultsNameNoToken(t *testing.T) {
	cases := []struct{ name, content, want string }{
		{"two words", "operator " + sentinel, "line 1: want name, role and token, got 2 words"},
		{"four words", "a full " + sentinel + " x", "line 1: want name, role and token, got 4 words"},
		{"role", "ok full t\noperator admin " + sentinel, "line 2: the role of operator must be full or read"},
		{"columns swapped", sentinel + "+/ full operator", "line 1: the name must be"},
		{"reserved name", "anonymous full " + sentinel, "not anonymous"},
		{"twice", "a full t1\na read " + sentinel, "line 2: the name a is there twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			writeFile(t, path, c.content)
			err := NewTokenFile(path, discardLog()).Check()
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), sentinel) {
				t.Errorf("got %v, want it to say %q and no token", err, c.want)
			}
		})
	}
	if err := NewTokenFile(filepath.Join(t.TempDir(), "none"), discardLog()).Check(); err == nil {
		t.Error("a missing file is fine")
	}
}

// apiServer answers token reviews by token.
func apiServer(t *testing.T, status int, users map[string]string, audience string, asked *int) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked++
		var in tokenReviewBody
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != tokenReviewPath || r.Header.Get("Authorization") != "Bearer own" {
			t.Errorf("asked %s with %v", r.URL.Path, err)
		}
		w.WriteHeader(status)
		user, ok := users[in.Spec.Token]
		in.Status.Authenticated, in.Status.User.Username, in.Status.Audiences = ok, user, []string{audience}
		_ = json.NewEncoder(w).Encode(in)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func newReview(t *testing.T, server *httptest.Server, allow map[string]Role) *TokenReview {
	t.Helper()
	own := filepath.Join(t.TempDir(), "own")
	writeFile(t, own, "own\n")
	ca := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, ca, pemOf(server.Certificate()))
	a, err := NewTokenReview(TokenReviewOptions{
		Audience: "kvm2d", Allow: allow, Server: server.URL, TokenFile: own, CAFile: ca, Log: discardLog(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTokenReview_table(t *testing.T) {
	users := map[string]string{
		"a.b.sa":   "system:serviceaccount:ops:operator",
		"a.b.evil": "system:serviceaccount:ops:other",
		"a.b.user": "ops/operator",
	}
	allow := map[string]Role{"ops/operator": RoleRead}
	cases := []struct {
		name, token, audience string
		status                int
		allow                 map[string]Role
		ok                    bool
		reason                instance.Reason // "" without an error
		asked                 int
	}{
		{"allowed", "a.b.sa", "kvm2d", 201, allow, true, "", 1},
		{"not allowed", "a.b.evil", "kvm2d", 201, allow, false, instance.ReasonForbidden, 1},
		{"not a ServiceAccount", "a.b.user", "kvm2d", 201, allow, false, instance.ReasonForbidden, 1},
		{"empty list", "a.b.sa", "kvm2d", 201, nil, false, instance.ReasonForbidden, 1},
		{"unknown", "a.b.c", "kvm2d", 201, allow, false, "", 1},
		{"other audience", "a.b.sa", "other", 201, allow, false, "", 1},
		{"no JWT is never sent", "opaque-secret", "kvm2d", 201, allow, false, "", 0},
		{"nothing", "", "kvm2d", 201, allow, false, "", 0},
		{"API server refuses us", "a.b.sa", "kvm2d", 403, allow, false, instance.ReasonCredentialsUnavailable, 1},
		{"API server broken", "a.b.sa", "kvm2d", 500, allow, false, instance.ReasonCredentialsUnavailable, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			a := newReview(t, apiServer(t, c.status, users, c.audience, &asked), c.allow)
			p, ok, err := a.Authenticate(context.Background(), Credentials{Token: c.token})
			if ok != c.ok || (err == nil) != (c.reason == "") || (err != nil && instance.ReasonOf(err) != c.reason) || asked != c.asked {
				t.Errorf("got %v, %v, %v, asked %d times; want %v, %q, %d", p, ok, err, asked, c.ok, c.reason, c.asked)
			}
			if ok && (p != Principal{Name: "ops/operator", Role: RoleRead}) {
				t.Errorf("principal %v", p)
			}
		})
	}
}

func TestTokenReview_unreachableIsNeverUnauthorized(t *testing.T) {
	asked := 0
	server := apiServer(t, 201, nil, "kvm2d", &asked)
	a := newReview(t, server, map[string]Role{"ops/operator": RoleFull})
	server.Close()
	h := newHarness(t, &fakeService{}, withAuth(a))
	r := request(http.MethodGet, "/placements", "")
	r.Header.Set("Authorization", "Bearer a.b."+sentinel)
	w := h.do(r)
	wantProblem(t, w, http.StatusServiceUnavailable, instance.ReasonCredentialsUnavailable)
	if strings.Contains(w.Body.String()+h.log.String(), sentinel) {
		t.Error("the token came out")
	}
}

// TestTokenReview_authorityRotates: whoever changes the cluster's authority need not restart the daemon.
func TestTokenReview_authorityRotates(t *testing.T) {
	asked := 0
	server := apiServer(t, 201, map[string]string{"a.b.sa": "system:serviceaccount:ops:operator"}, "kvm2d", &asked)
	a := newReview(t, server, map[string]Role{"ops/operator": RoleFull})
	ca := a.o.CAFile
	writeFile(t, ca, pemOf(newAuthority(t).cert))
	_, ok, err := a.Authenticate(t.Context(), Credentials{Token: "a.b.sa"})
	if ok || instance.ReasonOf(err) != instance.ReasonCredentialsUnavailable || asked != 0 {
		t.Fatalf("with another authority: ok %v, %v, asked %d times", ok, err, asked)
	}
	writeFile(t, ca, pemOf(server.Certificate()))
	if name, ok := authenticate(t, a, "a.b.sa"); !ok || name != "ops/operator" {
		t.Errorf("after the rotation it is %q, %v", name, ok)
	}
	writeFile(t, ca, "rubbish")
	if name, ok := authenticate(t, a, "a.b.sa"); !ok || name != "ops/operator" {
		t.Errorf("with rubbish after it, it is %q, %v", name, ok)
	}
}

func TestNewTokenReview_faults(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	writeFile(t, bad, sentinel)
	for _, file := range []string{"", bad} {
		if _, err := NewTokenReview(TokenReviewOptions{Audience: "kvm2d", CAFile: file, Log: discardLog()}); err == nil || strings.Contains(err.Error(), sentinel) {
			t.Errorf("authority %q: %v", file, err)
		}
	}
}

func TestTokenReview_believesAnOutcomeForAWhile(t *testing.T) {
	asked := 0
	users := map[string]string{"a.b.sa": "system:serviceaccount:ops:operator"}
	a := newReview(t, apiServer(t, 201, users, "kvm2d", &asked), map[string]Role{"ops/operator": RoleFull})
	for range 5 {
		authenticate(t, a, "a.b.sa")
		authenticate(t, a, "a.b.bad")
	}
	if asked != 2 {
		t.Errorf("asked %d times for two tokens", asked)
	}
	for i := range 2 * maxReviews {
		a.reviews[[32]byte{byte(i), byte(i >> 8)}] = review{}
	}
	authenticate(t, a, "a.b.third")
	if len(a.reviews) > maxReviews {
		t.Errorf("the cache holds %d", len(a.reviews))
	}
}

func TestAnonymous_loopbackNamesOnly(t *testing.T) {
	for host, want := range map[string]int{
		"localhost:8080": 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "[::1]:8080": 200, "[::1]": 200,
		"rebound.example:8080": 403, "10.0.0.1": 403, "localhost.example": 403,
	} {
		h := newHarness(t, &fakeService{}, withAuth(Anonymous{}))
		r := request(http.MethodGet, "/placements", "")
		r.Host = host
		if w := h.do(r); w.Code != want {
			t.Errorf("Host %q: got %d, want %d", host, w.Code, want)
		}
		open := newHarness(t, &fakeService{}, withAuth(Anonymous{AnyHost: true}))
		if w := open.do(r); w.Code != 200 {
			t.Errorf("Host %q with AnyHost: %d", host, w.Code)
		}
	}
}

func TestCheckExposure_table(t *testing.T) {
	cases := []struct {
		listen         string
		auth, insecure bool
		ok             bool
	}{
		{"127.0.0.1:8080", false, false, true},
		{"[::1]:8080", false, false, true},
		{"localhost:8080", false, false, true},
		{"[::ffff:127.0.0.1]:8080", false, false, true},
		{":8080", false, false, false},
		{"0.0.0.0:8080", false, false, false},
		{"[::]:8080", false, false, false},
		{"192.0.2.1:8080", false, false, false},
		{"kvm2d.example:8080", false, false, false},
		{":8080", true, false, true},
		{":8080", false, true, true},
	}
	for _, c := range cases {
		if err := CheckExposure(c.listen, c.auth, c.insecure); (err == nil) != c.ok {
			t.Errorf("CheckExposure(%q, %v, %v) = %v", c.listen, c.auth, c.insecure, err)
		}
	}
}
