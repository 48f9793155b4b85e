//go:build lab

package imagefaults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startLimit is how long a daemon may take to serve.
const startLimit = 30 * time.Second

// build makes the daemon's binary; args are for the Go compiler.
func build(t *testing.T, args ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kvm2d")
	args = append(append([]string{"build"}, args...), "-o", binary, "../../cmd/kvm2d")
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build kvm2d: %v\n%s", err, out)
	}
	return binary
}

// daemon is a kvm2d that lives, dies and comes back.
type daemon struct {
	binary, config, logFile string

	mu      sync.Mutex // held while it is down
	process *exec.Cmd  // nil while it does not run
	api     string
	// lives counts its starts and ends: a call during which it changes may fail.
	lives int
}

// newDaemon makes a daemon that does not run yet, and sees to its end.
// Its log is among those of the lab.
func (r *rig) newDaemon(t *testing.T, binary, name, config string) *daemon {
	t.Helper()
	d := &daemon{binary: binary, config: filepath.Join(t.TempDir(), name+".yaml"), logFile: filepath.Join(r.state, "kvm2d-"+name+".log")}
	for file, content := range map[string]string{d.config: config, d.logFile: ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := d.end(syscall.SIGTERM); err != nil {
			t.Errorf("end kvm2d: %v", err)
		}
		d.checkLog(t)
	})
	return d
}

// checkLog holds what was logged against what never may be.
func (d *daemon) checkLog(t *testing.T) {
	t.Helper()
	log, err := os.ReadFile(d.logFile)
	if err != nil {
		t.Error(err)
	}
	for line := range bytes.Lines(log) {
		for _, never := range []string{secret, "DATA RACE", "panic", `"reason":"Internal"`} {
			if bytes.Contains(line, []byte(never)) {
				t.Errorf("log has %s: %s", never, line)
			}
		}
	}
	t.Logf("%s: %d dead partials swept", filepath.Base(d.logFile), bytes.Count(log, []byte(`"dead partial image removed"`)))
}

func (d *daemon) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.startLocked()
}

func (d *daemon) startLocked() error {
	if d.process != nil {
		return nil
	}
	log, err := os.OpenFile(d.logFile, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	process := exec.Command(d.binary, "serve", "--config", d.config, "--log-level", "debug",
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		return err
	}
	d.process = process
	d.lives++
	for limit := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		if d.api = servedAt(d.logFile, before); d.api != "" {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("kvm2d does not serve after %v, see %s", startLimit, d.logFile)
		}
	}
}

// servedAt finds in the log, from offset on, which address the daemon serves at.
func servedAt(logFile string, offset int64) string {
	log, err := os.ReadFile(logFile)
	if err != nil {
		return ""
	}
	for text := range bytes.Lines(log[offset:]) {
		var line struct{ Msg, Listen string }
		if json.Unmarshal(text, &line) == nil && line.Msg == "serving" {
			return "http://" + line.Listen
		}
	}
	return ""
}

// end sends a signal to a daemon that runs, and waits for its end.
func (d *daemon) end(sig syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endLocked(sig)
}

func (d *daemon) endLocked(sig syscall.Signal) error {
	if d.process == nil {
		return nil
	}
	d.lives++
	process := d.process
	d.process = nil
	if err := process.Process.Signal(sig); err != nil {
		return err
	}
	// A daemon that does not end in its grace is a fault of its own.
	late := time.AfterFunc(90*time.Second, func() { _ = process.Process.Kill() })
	err := process.Wait()
	if !late.Stop() {
		return errors.New("kvm2d did not end within 90 s")
	}
	if sig == syscall.SIGKILL {
		return nil
	}
	return err
}

// bounce ends the daemon and starts it again; callers meanwhile wait.
func (d *daemon) bounce(sig syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.endLocked(sig); err != nil {
		return err
	}
	return d.startLocked()
}

// pid is of the running process.
func (d *daemon) pid() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.Process.Pid
}

// where tells where the daemon serves, and in which of its lives.
func (d *daemon) where() (api string, life int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.api, d.lives
}

// object is a JSON object as it came.
type object = map[string]any

// answer is what the daemon said; status 0 when it died instead.
type answer struct {
	status int
	body   []byte
}

// call sends a request. No answer is an error unless the daemon died meanwhile.
func (d *daemon) call(method, path string, body object) (answer, error) {
	api, life := d.where()
	got, err := request(api, method, path, body)
	if err == nil {
		return got, nil
	}
	if _, now := d.where(); now != life {
		return answer{}, nil
	}
	return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
}

func request(api, method, path string, body object) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	content, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	if body == nil {
		content = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, api+path, bytes.NewReader(content))
	if err != nil {
		return answer{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Prefer", "wait=60")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, data}, err
}

// reason is the word of a problem, "" for any other answer.
func (a answer) reason() string {
	var problem struct{ Reason string }
	_ = json.Unmarshal(a.body, &problem) // anything else has no reason
	return problem.Reason
}

func (a answer) String() string {
	return fmt.Sprintf("status %d: %s", a.status, strings.TrimSpace(string(a.body)))
}

// imageState asks how an image stands on a host, and why it failed if it did.
func (d *daemon) imageState(image, host string) (state, reason string, err error) {
	got, err := d.call(http.MethodGet, "/images?host="+host, nil)
	if err != nil || got.status != http.StatusOK {
		return "", got.reason(), err
	}
	var list struct {
		Items []struct{ Image, State, Reason string }
	}
	if err := json.Unmarshal(got.body, &list); err != nil {
		return "", "", fmt.Errorf("list of images: %w", err)
	}
	for _, row := range list.Items {
		if row.Image == image {
			return row.State, row.Reason, nil
		}
	}
	return "", "", fmt.Errorf("no row for image %s on %s: %s", image, host, got.body)
}
