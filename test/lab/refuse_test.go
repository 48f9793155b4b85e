//go:build lab

package lab_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What cannot be made leaves nothing on any host.
func TestCreate_refusedLeavesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		spec         object
		status       int
		kind, reason string
	}{
		"unknown placement": {object{"name": "refused-1", "placement": "nowhere"}, 422, "Permanent", "UnknownPlacement"},
		"unknown image":     {object{"name": "refused-2", "placement": "h1", "image": "none"}, 422, "Permanent", "UnknownImage"},
		"unknown size":      {object{"name": "refused-3", "placement": "h1", "size": "none"}, 422, "Permanent", "UnknownSize"},
		"no DNS label":      {object{"name": "refused.4", "placement": "h1"}, 400, "Permanent", "InvalidRequest"},
		"unknown field":     {object{"name": "refused-5", "placement": "h1", "colour": "red"}, 400, "Permanent", "InvalidRequest"},
		"two user datas":    {object{"name": "refused-6", "placement": "h1", "cloudInit": "a", "cloudInitBase64": "YQ=="}, 400, "Permanent", "InvalidRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			wantProblem(t, row.status, row.kind, row.reason, http.MethodPost, "/instances", row.spec)
		})
	}
	for _, host := range []string{"h1", "h2"} {
		if diff := cmp.Diff(holdings{}, holds(t, host, "refused")); diff != "" {
			t.Errorf("left on %s (-want +got):\n%s", host, diff)
		}
	}
}

// A pool without room for the image and the disk is known before anything is made.
func TestCreate_smallPoolIsQuotaExceeded(t *testing.T) {
	env, err := labEnv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A daemon of its own: two names for one libvirt are not for real use.
	config := fmt.Sprintf(`kvm2:
  owner: small
  hosts: [{name: h1, uri: %q, sshKeyFile: %s, knownHostsFile: %s, bridge: br0, pool: small}]
  images: {tiny: {url: %s/tiny.qcow2}}
  sizes: {tiny: {vcpus: 1, memoryMiB: 256, diskGiB: 1}}
  placements: {h1: {host: h1, image: tiny, size: tiny}}
`, env["KVM2D_LAB_H1_URI"], env["KVM2D_LAB_KEY"], env["KVM2D_LAB_KNOWN_HOSTS"], env["KVM2D_LAB_IMAGES_URL"])
	small, err := startDaemon(t.Context(), kvm2d.binary, t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := small.stop(); err != nil {
			t.Errorf("stop: %v\n%s", err, small.log())
		}
	})
	small.call(t, http.MethodPost, "/instances", object{"name": "refused", "placement": "h1"}).isProblem(t, 507, "QuotaExceeded", "PoolFull")
	virsh(t, "h1", "pool-refresh", "small")
	if got := strings.TrimSpace(virsh(t, "h1", "vol-list", "small")); got != "" {
		t.Errorf("left in the pool:\n%s", got)
	}
}

// A domain that is not ours keeps its name, and is never touched.
func TestCreate_foreignDomainIsLeftAlone(t *testing.T) {
	const definition = `<domain type="qemu"><name>foreign</name><memory unit="MiB">64</memory><os><type arch="x86_64">hvm</type></os></domain>`
	onHost(t, "h2", "sh", "-c", "echo '"+definition+"' | virsh --quiet define /dev/stdin")
	t.Cleanup(func() { virsh(t, "h2", "undefine", "foreign") })
	before := virsh(t, "h2", "dumpxml", "foreign")

	const path = "/instances/hosts/h2/domains/foreign"
	wantProblem(t, http.StatusConflict, "Permanent", "NameTaken", http.MethodPost, "/instances", object{"name": "foreign", "placement": "h2"})
	wantProblem(t, http.StatusNotFound, "NotFound", "InstanceNotFound", http.MethodGet, path, nil)
	wantProblem(t, http.StatusConflict, "Permanent", "NameTaken", http.MethodDelete, path, nil)
	if list := want(t, http.StatusOK, http.MethodGet, "/instances", nil); strings.Contains(string(list.body), "foreign") {
		t.Errorf("it is listed: %s", list.body)
	}
	if diff := cmp.Diff(before, virsh(t, "h2", "dumpxml", "foreign")); diff != "" {
		t.Errorf("it was changed (-before +after):\n%s", diff)
	}
	if got := holds(t, "h2", "kvm2.kvm2d.foreign."); got.Volumes != nil {
		t.Errorf("left on the host: %v", got)
	}
}

func TestHealth_realHosts(t *testing.T) {
	type entry struct {
		Host, Reason string
		Ready        bool
		Details      struct {
			User, DomainType, Pool, PoolState string
			Firmware                          []string
		}
	}
	var got struct {
		Status string
		Hosts  []entry
	}
	body := want(t, http.StatusOK, http.MethodGet, "/health", nil).body
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if got.Status != "ok" || len(got.Hosts) != 2 {
		t.Fatalf("got %s, want two hosts that are ready", body)
	}
	for i, name := range []string{"h1", "h2"} {
		host := got.Hosts[i]
		if host.Host != name || !host.Ready || host.Reason != "Ready" || host.Details.User != "kvm2d" || host.Details.PoolState != "running" {
			t.Errorf("got host %+v, want %s, ready", host, name)
		}
	}
}
