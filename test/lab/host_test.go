//go:build lab

package lab_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// onHost runs a command as root on a lab host and returns what it printed.
func onHost(t *testing.T, host string, command ...string) string {
	t.Helper()
	out, err := tryOnHost(t, host, command...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryOnHost(t *testing.T, host string, command ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, "./lab", append([]string{"exec", host}, command...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("on %s: %q: %w: %s", host, command, err, stderr.String())
	}
	return stdout.String(), nil
}

func virsh(t *testing.T, host string, args ...string) string {
	t.Helper()
	return onHost(t, host, append([]string{"virsh", "--quiet"}, args...)...)
}

// holdings is what a host holds: every domain, running or not, and every volume
// of the pool as libvirt finds it on a fresh look.
type holdings struct {
	Domains, Volumes []string
}

// holds returns the holdings of a host whose names contain name.
func holds(t *testing.T, host, name string) holdings {
	t.Helper()
	virsh(t, host, "pool-refresh", "default")
	var h holdings
	for domain := range strings.FieldsSeq(virsh(t, host, "list", "--all", "--name")) {
		if strings.Contains(domain, name) {
			h.Domains = append(h.Domains, domain)
		}
	}
	for line := range strings.Lines(virsh(t, host, "vol-list", "default")) {
		if fields := strings.Fields(line); len(fields) > 0 && strings.Contains(fields[0], name) {
			h.Volumes = append(h.Volumes, fields[0])
		}
	}
	slices.Sort(h.Domains)
	slices.Sort(h.Volumes)
	return h
}

// inGuest runs a shell command in a guest through its agent and returns what it
// printed.
func inGuest(t *testing.T, host, domain, command string) (string, error) {
	t.Helper()
	var started struct{ Return struct{ PID int } }
	if err := agent(t, host, domain, &started, "guest-exec", object{
		"path": "/bin/sh", "arg": []string{"-c", command}, "capture-output": true,
	}); err != nil {
		return "", err
	}
	var done struct {
		Return struct {
			Exited   bool
			ExitCode int
			OutData  string `json:"out-data"`
			ErrData  string `json:"err-data"`
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := poll(ctx, 300*time.Millisecond, func() error {
		if err := agent(t, host, domain, &done, "guest-exec-status", object{"pid": started.Return.PID}); err != nil {
			return err
		}
		if !done.Return.Exited {
			return fmt.Errorf("%q still runs", command)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	stdout, err := base64.StdEncoding.DecodeString(done.Return.OutData)
	if err != nil {
		return "", err
	}
	if done.Return.ExitCode != 0 {
		stderr, _ := base64.StdEncoding.DecodeString(done.Return.ErrData)
		return string(stdout), fmt.Errorf("%q ended with %d: %s", command, done.Return.ExitCode, stderr)
	}
	return string(stdout), nil
}

// agent sends one command to a guest's agent and decodes its answer into out.
func agent(t *testing.T, host, domain string, out any, command string, args object) error {
	t.Helper()
	request, err := json.Marshal(object{"execute": command, "arguments": args})
	if err != nil {
		return err
	}
	answer, err := tryOnHost(t, host, "virsh", "--quiet", "qemu-agent-command", domain, string(request))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(answer), out)
}
