//go:build lab

// Package lab_test drives the real daemon over HTTP, against two real libvirt
// hosts which it reaches over SSH. It knows nothing of the daemon's code. Run it
// with test/lab/test, which makes the hosts.
package lab_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kvm2d is the daemon that all tests share.
var kvm2d *daemon

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kvm2d-lab-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if kvm2d, err = startLabDaemon(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := kvm2d.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop kvm2d:", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "--- log of kvm2d\n%s---\n", kvm2d.log())
	}
	return code
}

// daemon is a kvm2d process with the lab's configuration.
type daemon struct {
	binary  string
	api     string // base URL
	process *exec.Cmd
	logFile string
}

// startLabDaemon builds kvm2d and starts it with both hosts of the lab.
func startLabDaemon(ctx context.Context, dir string) (*daemon, error) {
	build := exec.CommandContext(ctx, "go", "build", "-race", "-o", filepath.Join(dir, "kvm2d"), "../../cmd/kvm2d")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build kvm2d: %w\n%s", err, out)
	}
	config, err := labConfig(ctx, dir)
	if err != nil {
		return nil, err
	}
	return startDaemon(ctx, filepath.Join(dir, "kvm2d"), dir, config)
}

// startDaemon starts a daemon, with its files in dir, and waits until it serves.
func startDaemon(ctx context.Context, binary, dir, config string) (*daemon, error) {
	configFile := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		return nil, err
	}
	d := &daemon{binary: binary, logFile: filepath.Join(dir, "log")}
	out, err := os.Create(d.logFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	// Not under ctx: the daemon lives as long as the tests.
	d.process = exec.Command(binary, "serve", "--config", configFile, "--log-level", "debug",
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	d.process.Stdout, d.process.Stderr = out, out
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	err = poll(ctx, 50*time.Millisecond, func() error {
		return d.findAPI()
	})
	if err != nil {
		_ = d.stop()
		return nil, fmt.Errorf("start kvm2d: %w\n%s", err, d.log())
	}
	return d, nil
}

// findAPI reads in the log which address the daemon listens on.
func (d *daemon) findAPI() error {
	for text := range strings.Lines(d.log()) {
		var line struct{ Msg, Listen string }
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "serving" {
			d.api = "http://" + line.Listen
			return nil
		}
	}
	return errors.New("it does not say that it serves")
}

// labConfig is the lab's configuration with what the tests need besides: vendor
// data for the Debian guest, and a placement of it.
func labConfig(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "./lab", "config").Output()
	if err != nil {
		return "", fmt.Errorf("lab config: %w", err)
	}
	vendor := filepath.Join(dir, "vendor")
	if err := os.WriteFile(vendor, []byte("#!/bin/sh\necho vendor >>/run/order\n"), 0o600); err != nil {
		return "", err
	}
	before, after, found := strings.Cut(string(out), "debian: {")
	if !found {
		return "", errors.New("lab config has no Debian image")
	}
	return before + "debian: {vendorDataFile: " + vendor + ", " + after +
		"    debian: {host: h2, image: debian, size: small}\n", nil
}

// labEnv returns what `lab env` prints.
func labEnv(ctx context.Context) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, "./lab", "env").Output()
	if err != nil {
		return nil, fmt.Errorf("lab env: %w", err)
	}
	env := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), "=")
		env[key] = value
	}
	return env, nil
}

// stop ends the daemon as its supervisor would and returns what it made of that.
func (d *daemon) stop() error {
	if err := d.process.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return d.process.Wait()
}

func (d *daemon) log() string {
	data, _ := os.ReadFile(d.logFile)
	return string(data)
}

// poll calls probe until it succeeds; it returns its last error when ctx ends.
func poll(ctx context.Context, interval time.Duration, probe func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := probe()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
