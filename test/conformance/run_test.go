package conformance

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An interrupt in the middle of a run, here while creates are under way, leaves
// nothing behind.
func TestRun_interruptedLeavesNothing(t *testing.T) {
	target := startSimulator(t)
	ctx, interrupt := context.WithCancel(t.Context())
	server := startProxy(t, target, mutant{after: func(x *exchange) {
		if x.creates("race") {
			interrupt()
		}
	}})
	report, err := Run(ctx, Settings{URL: server.URL, Token: sesame})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Left) > 0 || len(report.With(Blocked)) == 0 || report.Conforms() {
		t.Errorf("left behind %v, blocked %v; want nothing left, and what came later blocked", report.Left, report.With(Blocked))
	}
	resp, err := http.Get(target + "/instances")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"items":[]`) {
		t.Errorf("instances are left:\n%s", b.String())
	}
}

// A server that stops answering ends the run in bounded time, and what may have
// been made is told.
func TestRun_silentServer(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/placements" {
			_, _ = w.Write([]byte(`{"items":[{"name":"a","host":"h","image":"i","size":"s"}]}`))
			return
		}
		<-release
	}))
	defer server.Close()
	defer close(release)
	const limit = 20 * time.Millisecond
	report, err := Run(t.Context(), Settings{URL: server.URL, CreateTimeout: limit, BootTimeout: limit, CallTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	if report.Took > time.Minute {
		t.Errorf("it took %s", report.Took)
	}
	if len(report.Left) == 0 || !strings.Contains(report.Left[0], "hosts/h/domains/conf-") {
		t.Errorf("got left behind %v, want what may have been made", report.Left)
	}
	if passed := report.With(Pass); passed != nil {
		t.Errorf("passed: %v", passed)
	}
}

func TestRun_cannotBegin(t *testing.T) {
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer html.Close()
	none := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"items":[]}`)) }))
	defer none.Close()
	for name, tt := range map[string]struct {
		settings Settings
		want     string
	}{
		"no URL":        {Settings{}, `URL "" is not one of http or https`},
		"a bare host":   {Settings{URL: "kvm2d:8080"}, "is not one of http or https"},
		"not the API":   {Settings{URL: html.URL}, "GET /placements"},
		"no placements": {Settings{URL: none.URL}, "no placement"},
		"nobody":        {Settings{URL: "http://127.0.0.1:1"}, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Run(t.Context(), tt.settings); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestFromEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KVM2D_URL", "http://a")
	t.Setenv("KVM2D_TOKEN_FILE", file)
	t.Setenv("KVM2D_PLACEMENT", "p")
	t.Setenv("KVM2D_CREATE_TIMEOUT", "20m")
	t.Setenv("KVM2D_BOOT_TIMEOUT", "")
	t.Setenv("KVM2D_CALL_TIMEOUT", "")
	got, err := FromEnvironment()
	want := Settings{URL: "http://a", Token: "open sesame", Placement: "p", CreateTimeout: 20 * time.Minute}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got error %v and (-want +got):\n%s", err, diff)
	}
	t.Setenv("KVM2D_TOKEN_FILE", file+".absent")
	t.Setenv("KVM2D_BOOT_TIMEOUT", "soon")
	t.Setenv("KVM2D_CA_FILE", file)
	_, err = FromEnvironment()
	for _, want := range []string{"no such file", "KVM2D_BOOT_TIMEOUT", "holds no certificate"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want all faults, %q too", err, want)
		}
	}
}

// TestFromEnvironment_authority: the image of the suite trusts nobody by itself.
func TestFromEnvironment_authority(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KVM2D_URL", server.URL)
	for ca, want := range map[string]bool{file: true, "": false} {
		t.Setenv("KVM2D_CA_FILE", ca)
		settings, err := FromEnvironment()
		if err != nil || settings.complete() != nil {
			t.Fatalf("settings: %v", err)
		}
		w := newWire(settings, "run", "conf")
		_, err = w.send(t.Context(), call{method: http.MethodGet, path: "/"})
		w.close()
		if (err == nil) != want {
			t.Errorf("with the authority %q: got %v", ca, err)
		}
	}
}

func TestReport_text(t *testing.T) {
	r := &Report{
		URL: "http://a", Placement: "p", Version: "v1", Took: 1234 * time.Millisecond,
		Findings: []Finding{
			{Rule: "auth", Title: "callers", Why: "everybody may call here"},
			{Rule: "G1", Title: "gone", blocked: true, Why: "create a: refused"},
			{Rule: "C10", Title: "patience", Checks: []Check{{What: "one"}, {What: "two", Fault: "got 200"}}},
			{Rule: "C1", Title: "repeats", Checks: []Check{{What: "one"}, {What: "two"}}},
		},
		Left: []string{"hosts/h/domains/a: 500"},
	}
	r.order()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	const want = `conformance of http://a (version v1, placement p)

C1                 pass             repeats
    checked: one; two
C10                FAIL             patience
    checked: one
    not so: two: got 200
G1                 BLOCKED          gone
    create a: refused
auth               not visible here callers
    everybody may call here

4 rules in 1.2s: 1 pass, 1 fail, 1 blocked, 1 not visible here
not visible from outside anywhere: C2 C6 C7 E2 G2 H3 I4 I5 L3 S2 S3
LEFT BEHIND: hosts/h/domains/a: 500
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if r.Conforms() {
		t.Error("it conforms")
	}
}
