//go:build k8s

package k8s_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// caller is another Pod that uses the API: kvm2d's own command line, with a
// token from a volume.
type caller struct {
	namespace string
	account   string // of the Pod; "" is the namespace's default
	token     object // a volume source that holds the file token
	server    string // whom it calls; "" is the Service
}

// answer is how a call ended.
type answer struct {
	exit   int
	output string // both standard output and error
}

// The exit codes of kvm2d's command line that the test expects.
const (
	exitOK        = 0
	exitPermanent = 5
	exitTransient = 6
)

// restricted is the security context that the restricted profile asks of a container.
var restricted = object{
	"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
	"capabilities": object{"drop": []string{"ALL"}}, "seccompProfile": object{"type": "RuntimeDefault"},
}

// secretToken is the token in a key of a Secret.
func secretToken(secret, key string) object {
	return object{"secret": object{"secretName": secret, "items": []object{{"key": key, "path": "token"}}}}
}

// accountToken is a token of the Pod's own ServiceAccount for audience.
func accountToken(audience string) object {
	return object{"projected": object{"sources": []object{{"serviceAccountToken": object{"audience": audience, "path": "token"}}}}}
}

// start starts a Pod named name that makes the call, and does not wait for it.
func (c caller) start(t *testing.T, name string, args ...string) {
	t.Helper()
	server := c.server
	if server == "" {
		server = serviceURL(t)
	}
	apply(t, object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": name, "namespace": c.namespace},
		"spec": object{
			"restartPolicy": "Never", "serviceAccountName": c.account, "automountServiceAccountToken": false,
			"containers": []object{{
				"name": "caller", "image": daemonImage(t), "args": args, "securityContext": restricted,
				"env": []object{
					{"name": "KVM2D_SERVER", "value": server},
					{"name": "KVM2D_TOKEN_FILE", "value": "/token/token"},
				},
				"volumeMounts": []object{{"name": "token", "mountPath": "/token", "readOnly": true}},
			}},
			"volumes": []object{merged(object{"name": "token"}, c.token)},
		},
	})
}

// call makes one call from a Pod of its own and returns how it ended.
func (c caller) call(t *testing.T, args ...string) answer {
	t.Helper()
	callers++
	name := fmt.Sprintf("caller-%d", callers)
	c.start(t, name, args...)
	a := c.wait(t, name)
	t.Logf("%s: kvm2d %s: exit %d", c.namespace, strings.Join(args, " "), a.exit)
	return a
}

// callers counts the Pods, for their names.
var callers int

// wait returns how the call of the Pod ended, and removes the Pod.
func (c caller) wait(t *testing.T, name string) answer {
	t.Helper()
	var a answer
	eventually(t, commandTimeout, "the end of Pod "+name, func() error {
		var pod struct {
			Status struct {
				Phase             string
				ContainerStatuses []struct {
					State struct {
						Terminated *struct{ ExitCode int }
						Waiting    *struct{ Reason, Message string }
					}
				}
			}
		}
		get(t, &pod, "--namespace", c.namespace, "pod", name)
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Terminated != nil {
				a.exit = status.State.Terminated.ExitCode
				return nil
			}
			if waiting := status.State.Waiting; waiting != nil {
				return fmt.Errorf("it waits: %s %s", waiting.Reason, waiting.Message)
			}
		}
		return errors.New("it is " + pod.Status.Phase)
	})
	a.output = kubectl(t, "--namespace", c.namespace, "logs", name)
	kubectl(t, "--namespace", c.namespace, "delete", "pod", name, "--wait=false")
	return a
}

// must makes a call that has to succeed, and returns what it printed.
func (c caller) must(t *testing.T, args ...string) string {
	t.Helper()
	a := c.call(t, args...)
	if a.exit != exitOK {
		t.Fatalf("kvm2d %s: exit %d, want 0\n%s", strings.Join(args, " "), a.exit, a.output)
	}
	return a.output
}

// waitForAddress asks until the instance runs and has an address.
func (c caller) waitForAddress(t *testing.T, id string) {
	t.Helper()
	var output string
	eventually(t, 3*time.Minute, "an address of "+id, func() error {
		output = c.must(t, "get", id, "--output", "json")
		if !strings.Contains(output, `"state": "Running"`) {
			return errors.New(output)
		}
		return nil
	})
	t.Log(output)
}

// merged is a with the entries of b.
func merged(a, b object) object {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
