//go:build k8s

// Package k8s_test installs kvm2d with helm into a real Kubernetes cluster, and
// uses it there against two real libvirt hosts. It runs inside the cluster's
// network, with kubectl and helm in the PATH. Start it with test/k8s/run, which
// makes all of that.
package k8s_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// commandTimeout bounds one command; those that wait longer have limits of
// their own below it.
const commandTimeout = 5 * time.Minute

// try runs a program with stdin, and returns what it wrote to its standard
// output. The error holds what it wrote to the other one.
func try(t *testing.T, stdin, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	// A process that it leaves behind may hold the pipes open.
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// command runs a program that must succeed.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(t, "", name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return command(t, "kubectl", args...)
}

// apply creates or changes an object, which is anything that becomes its JSON.
func apply(t *testing.T, object any) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := try(t, string(text), "kubectl", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// get reads objects as JSON into into.
func get(t *testing.T, into any, args ...string) {
	t.Helper()
	out := kubectl(t, append([]string{"get", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("kubectl get %s: %v", strings.Join(args, " "), err)
	}
}

// eventually repeats check until it returns nil, and fails the test with its
// last error after limit.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		case <-tick.C:
		}
	}
}

// explainFailure shows at the end of a test that failed what became of the Pods of a namespace.
func explainFailure(t *testing.T, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, kind := range []string{"pod", "event"} {
			out, err := try(t, "", "kubectl", "--namespace", namespace, "get", kind, "--output=wide")
			t.Logf("%s\n%v", out, err)
		}
	})
}

// object is a Kubernetes object, or a part of one.
type object = map[string]any
