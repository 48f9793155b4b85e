//go:build lab

package lab_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The whole life of a small instance, on each host at the same time.
func TestInstance_life(t *testing.T) {
	for _, host := range []string{"h1", "h2"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			name := "life-" + host
			spec := object{
				"name": name, "uid": "uid-" + host, "placement": host, "tags": object{"test": "life", "on": host},
				"cloudInit": "#!/bin/sh\nmkdir /srv\necho served by " + name + " >/srv/index.html\nhttpd -p 8000 -h /srv\n",
			}
			made := create(t, spec)
			id, _ := made["id"].(string)
			path := "/instances/" + id
			t.Run("repeat", func(t *testing.T) {
				before := holds(t, host, name)
				again := want(t, http.StatusOK, http.MethodPost, "/instances", spec).object(t)
				if again["id"] != id || again["createdAt"] != made["createdAt"] {
					t.Errorf("got %v, want the instance that was made: %v", again, made)
				}
				if diff := cmp.Diff(before, holds(t, host, name)); diff != "" {
					t.Errorf("a repeat changed what the host holds (-before +after):\n%s", diff)
				}
			})
			running := waitRunning(t, id, 3*time.Minute)
			t.Run("instance", func(t *testing.T) { checkInstance(t, running, spec) })
			t.Run("domain", func(t *testing.T) { checkDomain(t, host, name) })
			t.Run("volumes", func(t *testing.T) { checkVolumes(t, host, name) })
			t.Run("list", func(t *testing.T) { checkList(t, host, id) })
			t.Run("user data is in effect", func(t *testing.T) { checkServes(t, host, running) })
			t.Run("console", func(t *testing.T) {
				if got := want(t, http.StatusOK, http.MethodGet, path+"/console", nil); !strings.Contains(string(got.body), "tiny: up") {
					t.Errorf("got console %q, want the guest's last words in it", got.body)
				}
			})
			t.Run("another uid", func(t *testing.T) {
				other := object{"name": name, "uid": "another", "placement": host}
				wantProblem(t, http.StatusConflict, "Permanent", "UIDMismatch", http.MethodPost, "/instances", other)
				wantProblem(t, http.StatusConflict, "Permanent", "UIDMismatch", http.MethodDelete, path+"?uid=another", nil)
				want(t, http.StatusOK, http.MethodGet, path, nil)
			})
			t.Run("delete", func(t *testing.T) { checkDelete(t, host, name, path) })
		})
	}
}

func checkInstance(t *testing.T, got, spec object) {
	t.Helper()
	if created, err := time.Parse(time.RFC3339, fmt.Sprint(got["createdAt"])); err != nil || time.Since(created).Abs() > 10*time.Minute {
		t.Errorf("got createdAt %v", got["createdAt"])
	}
	want := object{
		"id":   fmt.Sprintf("hosts/%s/domains/%s", spec["placement"], spec["name"]),
		"name": spec["name"], "uid": spec["uid"], "host": spec["placement"], "placement": spec["placement"],
		"image": "tiny", "size": "tiny", "state": "Running", "tags": spec["tags"],
	}
	facts := object{}
	for key := range want {
		facts[key] = got[key]
	}
	if diff := cmp.Diff(want, facts); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
}

// domainXML is what the tests want to know of a domain.
type domainXML struct {
	OS struct {
		Firmware string `xml:"firmware,attr"`
		Features []struct {
			Name    string `xml:"name,attr"`
			Enabled string `xml:"enabled,attr"`
		} `xml:"firmware>feature"`
	} `xml:"os"`
	Mark struct {
		XMLName xml.Name
		Owner   string `xml:"owner,attr"`
		UID     string `xml:"uid,attr"`
	} `xml:"metadata>instance"`
	Disks []struct {
		Type   string `xml:"type,attr"`
		Source struct {
			File string `xml:"file,attr"`
		} `xml:"source"`
		Target struct {
			Bus string `xml:"bus,attr"`
		} `xml:"target"`
	} `xml:"devices>disk"`
	Channels []struct {
		Name string `xml:"name,attr"`
	} `xml:"devices>channel>target"`
}

func checkDomain(t *testing.T, host, name string) {
	t.Helper()
	var got domainXML
	if err := xml.Unmarshal([]byte(virsh(t, host, "dumpxml", "--inactive", name)), &got); err != nil {
		t.Fatal(err)
	}
	if got.OS.Firmware != "efi" {
		t.Errorf("got firmware %q, want efi", got.OS.Firmware)
	}
	for _, feature := range got.OS.Features {
		if feature.Name == "secure-boot" && feature.Enabled != "no" {
			t.Errorf("secure boot is on")
		}
	}
	if got.Mark.XMLName.Space != "https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2" ||
		got.Mark.Owner != "kvm2d" || got.Mark.UID != "uid-"+host {
		t.Errorf("got mark %+v", got.Mark)
	}
	if len(got.Disks) != 2 {
		t.Errorf("got %d disks, want overlay and seed", len(got.Disks))
	}
	for _, disk := range got.Disks {
		if disk.Type != "file" || !strings.HasPrefix(disk.Source.File, "/var/lib/libvirt/images/kvm2.kvm2d."+name+".") || disk.Target.Bus != "virtio" {
			t.Errorf("got disk %+v, want a virtio disk of a file in the pool", disk)
		}
	}
	if len(got.Channels) != 1 || got.Channels[0].Name != "org.qemu.guest_agent.0" {
		t.Errorf("got channels %v, want the guest agent's", got.Channels)
	}
	if !regexp.MustCompile(`(?m)^Autostart: +enable`).MatchString(virsh(t, host, "dominfo", name)) {
		t.Error("it does not start with its host")
	}
}

func checkVolumes(t *testing.T, host, name string) {
	t.Helper()
	got := holds(t, host, name)
	id := regexp.MustCompile(`\.[0-9a-f]{8}\.`)
	for i, volume := range got.Volumes {
		got.Volumes[i] = id.ReplaceAllString(volume, ".ID.")
	}
	prefix := "kvm2.kvm2d." + name + ".ID."
	want := holdings{
		Domains: []string{name},
		Volumes: []string{prefix + "console.log", prefix + "root.qcow2", prefix + "seed.iso"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the host holds (-want +got):\n%s", diff)
	}
}

func checkList(t *testing.T, host, id string) {
	t.Helper()
	body := want(t, http.StatusOK, http.MethodGet, "/instances?tag=test=life&tag=on="+host, nil).body
	var got struct{ Items []struct{ ID string } }
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 1 || got.Items[0].ID != id {
		t.Errorf("got %s, want only %s", body, id)
	}
}

// checkServes reaches, over the bridge, the web server that user data started.
func checkServes(t *testing.T, host string, instance object) {
	t.Helper()
	ip, _ := instance["ip"].(string)
	got := onHost(t, host, "curl", "-sS", "--max-time", "20", "--retry", "20", "--retry-connrefused", "--retry-delay", "1", "http://"+ip+":8000/")
	if want := fmt.Sprintf("served by %s\n", instance["name"]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func checkDelete(t *testing.T, host, name, path string) {
	t.Helper()
	want(t, http.StatusNoContent, http.MethodDelete, path+"?uid=uid-"+host, nil)
	wantProblem(t, http.StatusNotFound, "NotFound", "InstanceNotFound", http.MethodGet, path, nil)
	want(t, http.StatusNoContent, http.MethodDelete, path, nil)
	if diff := cmp.Diff(holdings{}, holds(t, host, name)); diff != "" {
		t.Errorf("left on the host (-want +got):\n%s", diff)
	}
	if got := onHost(t, host, "find", "/var/lib/libvirt/qemu", "-name", "*"+name+"*"); got != "" {
		t.Errorf("left under /var/lib/libvirt/qemu:\n%s", got)
	}
	if got := holds(t, host, "kvm2-base.tiny."); len(got.Volumes) == 0 {
		t.Error("the base image is gone")
	}
}
