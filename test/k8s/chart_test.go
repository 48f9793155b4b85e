//go:build k8s

package k8s_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// installation is what the steps of the test share.
type installation struct {
	gate   *gate
	values object
	notes  string // what helm install printed
	id     string // of the instance that must outlive everything
	holder caller // has the chart's token
	// account is a caller with the token of the ServiceAccount that the configuration allows.
	account caller
}

// instanceName is the instance's that lives from the first create to the end.
const instanceName = "steady"

// TestChart installs the chart and uses it in the order of an installation's
// life. The steps build on one another.
func TestChart(t *testing.T) {
	explainFailure(t, namespace)
	createNamespace(t, namespace)
	createNamespace(t, operator)
	i := &installation{gate: newGate(t)}
	if !t.Run("rendered charts are admitted", i.admission) {
		t.Log("the chart is installed all the same")
	}
	if !t.Run("install into a restricted namespace", i.install) {
		t.Fatal("no other step can be done")
	}
	t.Run("the commands of the notes work", i.walkNotes)
	t.Run("create from another Pod with the chart's token", i.create)
	t.Run("a ServiceAccount that is allowed", i.allowedAccount)
	t.Run("a ServiceAccount that is not allowed", i.refusedAccount)
	t.Run("a changed SSH Secret is used at the next dial", i.rotate)
	t.Run("a changed catalog is taken over without a restart", i.reload)
	t.Run("any other change of the configuration rolls the Pods", i.roll)
	t.Run("a host that goes rolls the Pods while one that comes does not", i.goAndCome)
	t.Run("helm test", i.helmTest)
	t.Run("two replicas", i.twoReplicas)
	t.Run("a create whose Pod was killed is finished by its repeat", i.killed)
	t.Run("uninstall leaves nothing but the instances", i.uninstall)
}

// admission has the API server judge what the chart renders, for each set of test values.
func (i *installation) admission(t *testing.T) {
	kubectl(t, "apply", "-f", "crds")
	kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
	files, err := filepath.Glob(chart + "/ci/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test values in %s/ci (%v)", chart, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			command(t, "helm", "lint", "--strict", "--values", file, chart)
			rendered := helm(t, "template", release, chart, "--values", file)
			out, err := dryRun(t, rendered)
			if err != nil {
				t.Fatal(err)
			}
			// The restricted profile has no place for the node's network.
			if !strings.Contains(rendered, "hostNetwork: true") && strings.Contains(out, "Warning") {
				t.Error(out)
			}
		})
	}
	t.Run("mistakes are refused", refusals)
}

// createNamespace makes a namespace whose Pods must keep to the restricted profile.
func createNamespace(t *testing.T, name string) {
	t.Helper()
	apply(t, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name, "labels": object{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
	}}})
}

func (i *installation) install(t *testing.T) {
	i.values = values(t, i.gate.url, i.gate.sha256)
	applySSHSecret(t, labFile(t, "keys/id_ed25519"))
	for _, account := range []string{operator, "stranger"} {
		apply(t, object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": account, "namespace": operator}})
	}
	i.notes = helm(t, "install", release, chart, "--values", writeValues(t, i.values), "--wait", "--timeout", "3m")
	t.Log(i.notes)
	if got := len(daemons(t)); got != 1 {
		t.Errorf("got %d Pods, want 1", got)
	}
	i.holder = caller{namespace: namespace, token: secretToken(tokenSecret, "token")}
	i.account = caller{namespace: operator, account: operator, token: accountToken(audience)}
}

// applySSHSecret gives the daemon a private key and the hosts' keys.
func applySSHSecret(t *testing.T, privateKey string) {
	t.Helper()
	apply(t, object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": sshSecret, "namespace": namespace},
		"stringData": object{"id_ed25519": privateKey, "known_hosts": knownHosts(t)},
	})
}

func (i *installation) create(t *testing.T) {
	i.id = "hosts/h1/domains/" + instanceName
	got := strings.TrimSpace(i.holder.must(t, "create", instanceName, "--placement", "h1", "--uid", "u1", "--tag", "test=k8s", "--output", "name"))
	if !strings.HasSuffix(got, i.id) {
		t.Fatalf("got %q, want the id %s", got, i.id)
	}
	i.holder.waitForAddress(t, i.id)
	if got := domainState(t, "h1", instanceName); got != "running" {
		t.Errorf("its domain is %s, want running", got)
	}
}

func (i *installation) allowedAccount(t *testing.T) {
	id := "hosts/h2/domains/by-account"
	i.account.must(t, "create", "by-account", "--placement", "h2")
	if got := domainState(t, "h2", "by-account"); got != "running" {
		t.Errorf("its domain is %s, want running", got)
	}
	i.account.must(t, "delete", id)
	if got := domains(t, "h2"); len(got) > 0 {
		t.Errorf("domains on h2 after the delete: %v", got)
	}
}

func (i *installation) refusedAccount(t *testing.T) {
	stranger := caller{namespace: operator, account: "stranger", token: accountToken(audience)}
	if got := stranger.call(t, "list"); got.exit != exitPermanent || !strings.Contains(got.output, "Forbidden") {
		t.Errorf("another account: %+v, want exit %d and Forbidden", got, exitPermanent)
	}
	// Its token is a good one, and not for us. The client takes a refusal of a file that is so new for a rotation.
	elsewhere := caller{namespace: operator, account: operator, token: accountToken("somebody-else")}
	if got := elsewhere.call(t, "list"); got.exit != exitTransient || !strings.Contains(got.output, "Unauthorized") {
		t.Errorf("another audience: %+v, want exit %d and Unauthorized", got, exitTransient)
	}
}

// upgrade installs the changed values and waits for the Pods.
func (i *installation) upgrade(t *testing.T, change func(values object)) {
	t.Helper()
	change(i.values)
	helm(t, "upgrade", release, chart, "--values", writeValues(t, i.values), "--wait", "--timeout", "3m")
}

// within is the object at a path of keys.
func within(t *testing.T, o object, path ...string) object {
	t.Helper()
	for _, key := range path {
		inner, ok := o[key].(object)
		if !ok {
			t.Fatalf("%s is no object", key)
		}
		o = inner
	}
	return o
}

func (i *installation) reload(t *testing.T) {
	before := daemons(t)
	i.upgrade(t, func(v object) {
		within(t, v, "config", "kvm2", "sizes")["roomy"] = object{"vcpus": 1, "memoryMiB": 320, "diskGiB": 2}
		within(t, v, "config", "kvm2", "placements")["h1-roomy"] = object{"host": "h1", "image": "tiny", "size": "roomy"}
	})
	eventually(t, 2*time.Minute, "the new placement", func() error {
		a := i.holder.call(t, "create", "roomy", "--placement", "h1-roomy")
		if a.exit != exitOK {
			return errors.New(a.output)
		}
		return nil
	})
	i.holder.must(t, "delete", "hosts/h1/domains/roomy")
	if diff := cmp.Diff(before, daemons(t), cmp.AllowUnexported(daemonPod{})); diff != "" {
		t.Errorf("Pods (-before +after):\n%s", diff)
	}
}

func (i *installation) roll(t *testing.T) {
	before, token, added := daemons(t), chartToken(t), addCaller(t)
	meanwhile := listAllTheTime(t)
	defer meanwhile.end()
	i.upgrade(t, func(v object) { within(t, v, "config")["limits"] = object{"createsPerHost": 2} })
	after := daemons(t)
	if len(after) != 1 || slices.ContainsFunc(after, func(p daemonPod) bool { return p.uid == before[0].uid }) {
		t.Errorf("Pods before: %v, after: %v; want one, and another", before, after)
	}
	calls, failed := meanwhile.end()
	t.Logf("%d calls meanwhile", calls)
	if len(failed) > 0 || calls == 0 {
		t.Errorf("%d of %d calls meanwhile failed, the first with %v", len(failed), calls, failed)
	}
	if chartToken(t) != token {
		t.Error("the upgrade changed the token that the chart made")
	}
	if !strings.Contains(callerLines(t), added) {
		t.Error("the upgrade took away the caller that was added")
	}
	if got := i.holder.must(t, "list", "--output", "name"); !strings.Contains(got, i.id) {
		t.Errorf("the list is %q, want %s in it", got, i.id)
	}
}

// helmTest runs the chart's own test. Its Pod is gone once it passed, and with it the logs.
func (i *installation) helmTest(t *testing.T) {
	helm(t, "test", release, "--timeout", "2m")
}

// uninstall looks for what is left in every kind of resource that can be listed.
func (i *installation) uninstall(t *testing.T) {
	kinds := strings.Fields(kubectl(t, "api-resources", "--verbs=list", "--output=name"))
	ours := func() []string {
		return strings.Fields(kubectl(t, "get", strings.Join(kinds, ","), "--all-namespaces", "--selector", byInstance, "--output=name", "--ignore-not-found"))
	}
	before := ours()
	for _, want := range []string{
		"deployment.apps/kvm2d", "service/kvm2d", "configmap/kvm2d", "secret/kvm2d-token", "serviceaccount/kvm2d",
		"clusterrole.rbac.authorization.k8s.io/kvm2d:kvm2d:tokenreview",
	} {
		if !slices.Contains(before, want) {
			t.Errorf("%s is not found by the instance's label, only %v", want, before)
		}
	}
	helm(t, "uninstall", release, "--wait", "--timeout", "3m")
	eventually(t, time.Minute, "the end of all that the chart made", func() error {
		if left := ours(); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
	t.Logf("nothing is left of %d objects, in %d kinds of resources", len(before), len(kinds))
	if got := domainState(t, "h1", instanceName); got != "running" {
		t.Errorf("the domain of the instance is %s, want running", got)
	}
}

// walkNotes types the commands that helm install printed, one after the other, as they are.
func (i *installation) walkNotes(t *testing.T) {
	var commands []string
	for line := range strings.Lines(i.notes[strings.Index(i.notes, "NOTES:"):]) {
		if indented, ok := strings.CutPrefix(line, "  "); ok {
			commands = append(commands, strings.TrimSpace(indented))
		}
	}
	if len(commands) != 3 {
		t.Errorf("got %d commands, want 3: %q", len(commands), commands)
	}
	// One of them goes on in the background.
	shell := "cd " + t.TempDir() + " && trap 'kill $(jobs -p)' EXIT\n" + strings.Join(commands, "\n")
	out, err := try(t, "", "bash", "-euo", "pipefail", "-c", shell)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, `"status":"ok"`) {
		t.Errorf("got %s, want a report that all is well", out)
	}
}
