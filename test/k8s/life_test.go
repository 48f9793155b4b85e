//go:build k8s

package k8s_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// rotate changes the key that the hosts let in, and then the Secret.
func (i *installation) rotate(t *testing.T) {
	before := daemons(t)
	p := provider(t)
	key := filepath.Join(t.TempDir(), "id_ed25519")
	command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rotated", "-f", key)
	authorize(t, command(t, "cat", key+".pub"))
	// Each check dials anew.
	eventually(t, 30*time.Second, "a refusal of the old key", func() error { return healthReasons(t, p, "AuthenticationFailed") })
	applySSHSecret(t, command(t, "cat", key))
	began := time.Now()
	eventually(t, 2*time.Minute, "a login with the new key", func() error { return healthReasons(t, p, "Ready") })
	t.Logf("the new key was in use %v after the Secret changed", time.Since(began).Round(time.Second))
	if after := daemons(t); !slices.Equal(before, after) {
		t.Errorf("Pods before: %v, after: %v; want the same", before, after)
	}
	if got := i.holder.must(t, "get", i.id, "--output", "json"); !strings.Contains(got, `"state": "Running"`) {
		t.Errorf("got %s, want it Running", got)
	}
}

// twoReplicas has two daemons share the hosts: each sees the instance, and of two creates of one name one is made.
func (i *installation) twoReplicas(t *testing.T) {
	i.upgrade(t, func(v object) { v["replicaCount"] = 2 })
	pods := daemons(t)
	if len(pods) != 2 {
		t.Fatalf("got %d Pods, want 2", len(pods))
	}
	const name, id = "shared", "hosts/h2/domains/shared"
	through := func(pod daemonPod) caller {
		c := i.holder
		c.server = "http://" + pod.ip + ":8080"
		return c
	}
	create := []string{"create", name, "--placement", "h2", "--uid", "u2", "--output", "name"}
	for n, pod := range pods {
		through(pod).start(t, fmt.Sprintf("shared-%d", n), create...)
	}
	for n, pod := range pods {
		a := i.holder.wait(t, fmt.Sprintf("shared-%d", n))
		if a.exit == exitTransient {
			// It met the domain while the other one started it. Callers repeat what is transient.
			t.Logf("create through %s: %s", pod.name, a.output)
			a = through(pod).call(t, create...)
		}
		if a.exit != exitOK || !strings.Contains(a.output, id) {
			t.Errorf("create through %s: exit %d, %q, want %s", pod.name, a.exit, a.output, id)
		}
		if got := through(pod).must(t, "list", "--output", "name"); !strings.Contains(got, i.id) || !strings.Contains(got, id) {
			t.Errorf("%s lists %q, want %s and %s", pod.name, got, i.id, id)
		}
	}
	i.holder.waitForAddress(t, id)
	if got := domains(t, "h2"); !slices.Equal(got, []string{name}) {
		t.Errorf("domains on h2: %v, want %s", got, name)
	}
	i.holder.must(t, "delete", id)
	if got := volumes(t, "h2", name); len(got) > 0 {
		t.Errorf("volumes on h2 after the delete: %v", got)
	}
}

// killed kills all Pods while a create waits for its image, and repeats the create.
func (i *installation) killed(t *testing.T) {
	const name, id = "killed", "hosts/h2/domains/killed"
	create := []string{"create", name, "--placement", "h2-gated", "--uid", "u3", "--output", "name"}
	i.holder.start(t, "impatient", create...)
	await(t, i.gate.waiting, "the create's download")
	for _, pod := range daemons(t) {
		kubectl(t, "--namespace", namespace, "delete", "pod", pod.name, "--grace-period=0", "--force")
	}
	await(t, i.gate.gone, "the end of the download")
	if got := domains(t, "h2"); len(got) > 0 {
		t.Fatalf("domains on h2 in the middle of the create: %v", got)
	}
	i.gate.open()
	kubectl(t, "--namespace", namespace, "rollout", "status", "deployment", release, "--timeout=90s")
	// The caller's own repeat may have met the new Pod, or not.
	a := i.holder.wait(t, "impatient")
	t.Logf("the create whose Pod was killed: exit %d\n%s", a.exit, a.output)
	if got := i.holder.must(t, create...); !strings.Contains(got, id) {
		t.Errorf("got %q, want %s", got, id)
	}
	i.holder.waitForAddress(t, id)
	if got := domains(t, "h2"); !slices.Equal(got, []string{name}) {
		t.Errorf("domains on h2: %v, want %s", got, name)
	}
	if got := volumes(t, "h2", name); len(got) != 3 {
		t.Errorf("volumes: %v, want disk, seed and console of one attempt", got)
	}
	i.holder.must(t, "delete", id)
}

// await waits for something from a channel.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
}
