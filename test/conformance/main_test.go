package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// folder is where the binary is, for all tests.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "kvm2d-conformance"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

// TestConformance examines the installation at KVM2D_URL, or a simulator when
// there is none.
func TestConformance(t *testing.T) {
	settings, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if settings.URL == "" {
		settings.URL = startSimulator(t)
	}
	// An interrupt ends the run, not its clean-up.
	ctx, cancel := inTime(t)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := Run(ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		if err := report.Write(os.Stdout); err != nil {
			t.Error(err)
		}
	}
	for _, f := range report.With(Fail, Blocked) {
		t.Errorf("%s (%s): %s\n%s", f.Rule, f.Title, f.Verdict(), f)
	}
	for _, left := range report.Left {
		t.Errorf("left behind: %s", left)
	}
}

// binary builds kvm2d, once.
var binary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(folder, "kvm2d")
	if out, err := exec.Command("go", "build", "-o", file, "../../cmd/kvm2d").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kvm2d: %w\n%s", err, out)
	}
	return file, nil
})

// startSimulator starts the real binary with simulated hosts, for as long as the
// test runs, and returns the URL of its API.
func startSimulator(t *testing.T) string {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(file, "serve", "--simulate", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	log, err := process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := servingAt(bufio.NewScanner(log))
	var drained sync.WaitGroup
	drained.Go(func() { _, _ = io.Copy(io.Discard, log) })
	t.Cleanup(func() {
		if err := process.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("stop the simulator: %v", err)
		}
		drained.Wait()
		if err := process.Wait(); err != nil {
			t.Errorf("stop the simulator: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// servingAt reads a daemon's log up to where it says which address it serves.
func servingAt(log *bufio.Scanner) (string, error) {
	var said []byte
	for log.Scan() {
		said = append(append(said, log.Bytes()...), '\n')
		var line struct{ Msg, Listen string }
		if json.Unmarshal(log.Bytes(), &line) == nil && line.Msg == "serving" {
			return "http://" + line.Listen, nil
		}
	}
	return "", fmt.Errorf("kvm2d does not serve: %s", said)
}
