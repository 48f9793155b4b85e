//go:build lab

package lab_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// volumesOf are the names of an instance's volumes.
func volumesOf(t *testing.T, host, name string) []string {
	t.Helper()
	return holds(t, host, "kvm2.kvm2d."+name+".").Volumes
}

// deleteVolumes takes an instance's volumes of a kind away, behind the daemon's back.
func deleteVolumes(t *testing.T, host, name, kind string) {
	t.Helper()
	for _, volume := range volumesOf(t, host, name) {
		if strings.Contains(volume, kind) {
			virsh(t, host, "vol-delete", volume, "default")
		}
	}
}

// A delete ends empty from whatever libvirt keeps beside a domain, and from
// whatever somebody took away by hand.
func TestDelete_fromPartialStates(t *testing.T) {
	const host, name = "h2", "partial"
	do := func(commands ...string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			for _, command := range commands {
				virsh(t, host, strings.Fields(command)...)
			}
		}
	}
	for state, bring := range map[string]func(*testing.T){
		"off":    do("destroy partial"),
		"paused": do("suspend partial"),
		"snapshots, checkpoint, managed save": do(
			"destroy partial", "snapshot-create-as partial first", "start partial", "checkpoint-create-as partial second", "managedsave partial"),
		"undefined while it runs": do("undefine partial --nvram"),
		"domain gone":             do("destroy partial", "undefine partial --nvram"),
		"overlay gone": func(t *testing.T) {
			t.Helper()
			deleteVolumes(t, host, name, "root")
		},
		"all volumes gone": func(t *testing.T) {
			t.Helper()
			virsh(t, host, "destroy", name)
			deleteVolumes(t, host, name, "")
		},
		"a file that libvirt has not seen": func(t *testing.T) {
			t.Helper()
			overlay := volumesOf(t, host, name)[1]
			onHost(t, host, "touch", "/var/lib/libvirt/images/"+strings.Replace(overlay, "root.qcow2", "console.log.0", 1))
		},
	} {
		t.Run(state, func(t *testing.T) {
			create(t, object{"name": name, "uid": "uid-" + host, "placement": host})
			if got := onHost(t, host, "find", "/var/lib/libvirt/qemu/nvram", "-name", name+"*"); got == "" {
				t.Error("there is no NVRAM: that none is left says nothing")
			}
			bring(t)
			checkDelete(t, host, name, "/instances/hosts/h2/domains/"+name)
		})
	}
}

// checkGone fails when anything of the name is left on the host.
func checkGone(t *testing.T, host, name string) {
	t.Helper()
	if diff := cmp.Diff(holdings{}, holds(t, host, name)); diff != "" {
		t.Errorf("left on the host (-want +got):\n%s", diff)
	}
}

// A pool that is stopped hides the volumes: the domain stays, so that a repeat
// finds them.
func TestDelete_poolStoppedKeepsTheDomain(t *testing.T) {
	const host, name = "h2", "stopped-pool"
	create(t, object{"name": name, "uid": "u1", "placement": host})
	const path = "/instances/hosts/h2/domains/" + name
	virsh(t, host, "pool-destroy", "default")
	t.Cleanup(func() {
		if !strings.Contains(virsh(t, host, "pool-info", "default"), "running") {
			virsh(t, host, "pool-start", "default")
		}
	})
	for range 2 {
		wantProblem(t, http.StatusServiceUnavailable, "Transient", "PoolNotActive", http.MethodDelete, path, nil)
	}
	if got := virsh(t, host, "list", "--all", "--name"); !slices.Contains(strings.Fields(got), name) {
		t.Errorf("the domain is gone: %q", got)
	}
	virsh(t, host, "pool-start", "default")
	want(t, http.StatusNoContent, http.MethodDelete, path, nil)
	checkGone(t, host, name)
}

// What only looks like an instance's stays: another owner's, another name's,
// another machine's.
func TestDelete_foreignVolumesAreLeftAlone(t *testing.T) {
	const host, name = "h2", "near"
	foreign := []string{
		"kvm2.kvm2d.near-2.12345678.root.qcow2", "kvm2.kvm2d.nea.12345678.root.qcow2", "kvm2.other.near.12345678.root.qcow2",
		"kvm.near.root.qcow2", "near.qcow2", "near",
	}
	for _, volume := range foreign {
		virsh(t, host, "vol-create-as", "default", volume, "1M", "--format", "qcow2")
	}
	t.Cleanup(func() {
		for _, volume := range foreign {
			virsh(t, host, "vol-delete", volume, "default")
		}
	})
	definition := fmt.Sprintf(`<domain type="qemu"><name>near-3</name><memory unit="MiB">64</memory><os><type arch="x86_64">hvm</type></os>`+
		`<devices><disk type="file"><source file="/var/lib/libvirt/images/%s"/><target dev="vda" bus="virtio"/></disk></devices></domain>`, foreign[2])
	onHost(t, host, "sh", "-c", "echo '"+definition+"' | virsh --quiet define /dev/stdin")
	t.Cleanup(func() { virsh(t, host, "undefine", "near-3") })
	before := holds(t, host, "nea")

	create(t, object{"name": name, "uid": "u1", "placement": host})
	want(t, http.StatusNoContent, http.MethodDelete, "/instances/hosts/h2/domains/"+name, nil)
	if diff := cmp.Diff(before, holds(t, host, "nea")); diff != "" {
		t.Errorf("a create and a delete changed what is not theirs (-before +after):\n%s", diff)
	}
}
