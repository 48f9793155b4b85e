//go:build lab

package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A real cloud-init applies both the caller's cloud-config and the scripts of
// the vendor data: the daemon's own, which sees to the guest agent, and that of
// the image's vendorDataFile.
func TestInstance_debianAppliesUserAndVendorData(t *testing.T) {
	t.Parallel()
	const name = "debian"
	made := create(t, object{
		"name": name, "uid": "u1", "placement": "debian",
		"cloudInit": "#cloud-config\nwrite_files: [{path: /run/written, content: by user data}]\nruncmd: [[sh, -c, \"echo runcmd >>/run/order\"]]\n",
	})
	id, _ := made["id"].(string)
	if got := waitRunning(t, id, 10*time.Minute); got["image"] != "debian" {
		t.Errorf("got image %v", got["image"])
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	// The address may be known from ARP before the agent answers.
	err := poll(ctx, time.Second, func() error {
		status, err := inGuest(t, "h2", name, "cloud-init status")
		if err == nil && !strings.Contains(status, "done") {
			err = errors.New("cloud-init: " + status)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"hostname":           name + "\n",
		"cat /run/written":   "by user data",
		"sort /run/order":    "runcmd\nvendor\n",
		"cloud-id":           "nocloud\n",
		"pidof qemu-ga | wc": "      1       1",
	} {
		got, err := inGuest(t, "h2", name, command)
		if err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, %v, want %q", command, got, err, want)
		}
	}
	uuid := strings.TrimSpace(virsh(t, "h2", "domuuid", name))
	if got, err := inGuest(t, "h2", name, "cat /var/lib/cloud/data/instance-id"); err != nil || strings.TrimSpace(got) != uuid {
		t.Errorf("got instance-id %q, %v, want the domain's UUID %s", got, err, uuid)
	}
	log, err := inGuest(t, "h2", name, "cat /var/log/cloud-init-output.log")
	if err != nil || !strings.Contains(log, "kvm2d: the guest agent") {
		t.Errorf("the daemon's vendor script left no word in the log: %v\n%s", err, log)
	}
	want(t, http.StatusNoContent, http.MethodDelete, fmt.Sprintf("/instances/%s?uid=u1", id), nil)
}
