//go:build integration

package integration_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

// daemon is a kvm2d process over the host under test.
type daemon struct {
	*client.Provider
	// api and admin are base URLs.
	api, admin string
	process    *exec.Cmd
	logFile    string
	trace      traced
	spans      *spans
}

// startDaemon builds kvm2d and starts it; it ends with the test at the latest.
func startDaemon(t *testing.T, s settings) *daemon {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "kvm2d")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/kvm2d")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kvm2d: %v\n%s", err, out)
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemon{logFile: filepath.Join(dir, "log"), spans: &spans{}}
	_, _ = rand.Read(d.trace.trace[:]) // never fails
	receiver := httptest.NewServer(d.spans)
	t.Cleanup(receiver.Close)
	log, err := os.Create(d.logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	level := s.logLevel
	if level == "" {
		level = "debug"
	}
	// It outlives the test's context: clean-ups still ask it.
	d.process = exec.CommandContext(context.WithoutCancel(t.Context()), binary, "serve", "--config", config, "--log-level", level,
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	d.process.Stdout, d.process.Stderr = log, log
	d.process.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.URL, "OTEL_BSP_SCHEDULE_DELAY=100")
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.stop(t)
		if t.Failed() || s.logLevel != "" {
			t.Logf("log of kvm2d:\n%s", d.log())
		}
	})
	poll(t, 20*time.Second, 50*time.Millisecond, func() (err error) {
		d.api, d.admin, err = d.addresses()
		return err
	})
	d.Provider, err = client.NewProvider(client.Options{
		Name: "integration", Server: d.api, Wait: min(s.timeout, 15*time.Minute), CallTimeout: s.timeout, Transport: d.trace,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// addresses reads in the log where the daemon listens.
func (d *daemon) addresses() (api, admin string, err error) {
	for text := range strings.Lines(d.log()) {
		var line struct {
			Msg, Listen string
			Admin       string `json:"admin_listen"`
		}
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "serving" {
			return "http://" + line.Listen, "http://" + line.Admin, nil
		}
	}
	return "", "", errors.New("kvm2d does not say that it serves: " + d.log())
}

func (d *daemon) log() string {
	text, _ := os.ReadFile(d.logFile)
	return string(text)
}

// stop ends the daemon as its supervisor would.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if d.Provider != nil {
		d.Close()
	}
	_ = d.process.Process.Signal(os.Interrupt)
	if err := d.process.Wait(); err != nil {
		t.Errorf("the end of kvm2d: %v", err)
	}
}

// metrics returns what the daemon counts.
func (d *daemon) metrics(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.admin+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// removeImage takes the test's image from the host, so that the next create
// has to bring it.
func (d *daemon) removeImage(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, d.api+"/images/"+testImage+"?host="+hostName, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusNoContent {
		return errors.New("remove the image: " + res.Status)
	}
	return nil
}

// poll repeats probe until it succeeds; its last error fails the test.
func poll(t *testing.T, patience, pause time.Duration, probe func() error) {
	t.Helper()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; {
		err := probe()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", patience, err)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}
