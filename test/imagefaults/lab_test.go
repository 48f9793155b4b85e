//go:build lab

// Package imagefaults_test lets the real daemon fetch images from a mirror that
// misbehaves, onto two real libvirt hosts, while kvm2d and libvirtd are killed.
// Whatever happens: a marked base is whole, and once the faults end there is one
// of each image and nothing else. Run it with test/imagefaults/run.
package imagefaults_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	// secret stands in the images' URLs, as password and as signature.
	secret = "hush-b1f4d0e2"
)

// number reads a whole number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q, want a whole number", name, text)
	}
	return n
}

// poll calls probe until it succeeds, and fails the test after limit.
func poll(t *testing.T, limit, interval time.Duration, what string, probe func() error) {
	t.Helper()
	end := time.Now().Add(limit)
	for {
		err := probe()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("gave up on %s after %v: %v", what, limit, err)
		}
		time.Sleep(interval)
	}
}

// lab runs a command of the lab's script and returns what it printed.
func lab(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../lab/lab", args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("lab %q: %w\n%s", args, err, complaint.String())
	}
	return string(out), nil
}

func mustLab(t *testing.T, args ...string) string {
	t.Helper()
	out, err := lab(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// labEnv is what `lab env` tells.
func labEnv(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for line := range strings.Lines(mustLab(t, "env")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return env
}

// killLibvirtd ends libvirtd as the kernel would when memory runs out, and starts
// it again as systemd would, once it is gone.
func killLibvirtd(host string) error {
	_, err := lab("exec", host, "sh", "-c",
		`pid=$(cat /run/libvirtd.pid) && kill -KILL "$pid" && while kill -0 "$pid" 2>&-; do sleep 0.02; done; exec libvirtd --daemon`)
	return err
}
