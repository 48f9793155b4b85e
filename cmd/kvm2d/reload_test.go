package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// reloadable is a daemon with a configuration file over hosts in memory.
type reloadable struct {
	*running
	file    string
	hangups chan os.Signal
	hosts   map[string]*sim.Host
}

// startReloadable starts one with the lines given under kvm2. It looks at the
// file every interval.
func startReloadable(t *testing.T, every time.Duration, kvm2 string) *reloadable {
	t.Helper()
	d := &reloadable{
		file: filepath.Join(t.TempDir(), "kvm2d.yaml"), hangups: make(chan os.Signal, 1),
		hosts: map[string]*sim.Host{"a": sim.NewHost(sim.Options{Name: "a"}), "b": sim.NewHost(sim.Options{Name: "b"}), "c": sim.NewHost(sim.Options{Name: "c"})},
	}
	d.write(t, kvm2)
	d.running = startDaemon(t, func(o *appOptions) {
		listen := o.Config.Server
		if err := loadInto(t.Context(), o, d.file); err != nil {
			t.Fatal(err)
		}
		o.Config.Server = listen
		o.Backends = backends{downloads: sim.Images{}, connector: d.connector}
		o.File.hangups, o.File.every = d.hangups, every
	})
	return d
}

func (d *reloadable) connector(h config.Host) (libvirtx.Connector, error) {
	if host, ok := d.hosts[h.Name]; ok {
		return host, nil
	}
	if h.Name == "panics" {
		panic("sentinel-of-a-panic")
	}
	return nil, errors.New("no such host")
}

func (d *reloadable) write(t *testing.T, kvm2 string) {
	t.Helper()
	if err := os.WriteFile(d.file, []byte("kvm2:\n"+kvm2), 0o600); err != nil {
		t.Fatal(err)
	}
}

// hangup asks for a reload, and waits until it was counted as outcome.
func (d *reloadable) hangup(outcome string) {
	d.t.Helper()
	before := d.reloads(outcome)
	d.hangups <- syscall.SIGHUP
	until(d.t, "a reload that is "+outcome, func() bool { return d.reloads(outcome) == before+1 })
}

func (d *reloadable) reloads(outcome string) int {
	return int(d.metric(`kvm2d_config_reloads_total{outcome="` + outcome + `"}`))
}

// metric returns the value of a series, -1 when it is absent.
func (d *running) metric(series string) float64 {
	d.t.Helper()
	for line := range strings.Lines(d.text(d.admin + "/metrics")) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			if _, err := fmt.Sscan(rest, &v); err != nil {
				d.t.Fatalf("%s: %v", line, err)
			}
			return v
		}
	}
	return -1
}

// touch makes a call to the host, over its warm connection.
func (d *reloadable) touch(host string) int {
	d.t.Helper()
	status, _ := d.call(http.MethodGet, d.api+"/instances?host="+host, "")
	return status
}

func (d *reloadable) placements() []string {
	d.t.Helper()
	_, got := d.call(http.MethodGet, d.api+"/placements", "")
	var names []string
	for _, item := range list(got["items"]) {
		p, _ := item.(map[string]any)
		name, _ := p["name"].(string)
		names = append(names, name)
	}
	return names
}

// stopped ends the daemon and looks for what it left.
func (d *reloadable) stopped(t *testing.T) {
	t.Helper()
	if err := d.end(); err != nil {
		t.Error(err)
	}
	d.client.CloseIdleConnections()
	for name, h := range d.hosts {
		if n := h.OpenConns(); n != 0 {
			t.Errorf("%d connections to %s are left", n, name)
		}
	}
}

// hostLines are hosts over SSH with an image, a size and a placement on each.
func hostLines(hosts ...string) string {
	var b strings.Builder
	b.WriteString("  images: {i: {url: \"https://mirror.invalid/i.qcow2\"}}\n  sizes: {s: {vcpus: 1, memoryMiB: 512, diskGiB: 4}}\n  placements:\n")
	for _, h := range hosts {
		name, _, _ := strings.Cut(h, " ")
		fmt.Fprintf(&b, "    on-%s: {host: %s, image: i, size: s}\n", name, name)
	}
	b.WriteString("  hosts:\n")
	for _, h := range hosts {
		name, more, _ := strings.Cut(h, " ")
		fmt.Fprintf(&b, "    - {name: %s, uri: \"qemu+ssh://k@%s/system\", sshKeyFile: /k, knownHostsFile: /h, network: default%s}\n", name, name, more)
	}
	return b.String()
}

func TestReload_onlyChangedHostsGetNewSessions(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startReloadable(t, time.Hour, hostLines("a", "b"))
	d.touch("a")
	d.touch("b")
	dialsA, dialsB := d.hosts["a"].Connects(), d.hosts["b"].Connects()

	// b is reached with another key, c is new, a stays. A call to b is under way.
	release := d.hosts["b"].Stall("ConnectGetAllDomainStats")
	old := make(chan int, 1)
	go func() { old <- d.touch("b") }()
	until(t, "the call to b", func() bool { return d.hosts["b"].Calls("ConnectGetAllDomainStats") == 2 })
	d.write(t, hostLines("a", "b , passphraseFile: /p", "c"))
	d.hangup(reloadApplied)
	release()
	if got := <-old; got != http.StatusOK {
		t.Errorf("the call that was under way: got %d, want 200", got)
	}
	for _, h := range []string{"a", "b", "c"} {
		if got := d.touch(h); got != http.StatusOK {
			t.Errorf("host %s after the reload: got %d, want 200", h, got)
		}
	}
	if got := d.hosts["a"].Connects(); got != dialsA {
		t.Errorf("host a did not change and was dialled again: %d dials, then %d", dialsA, got)
	}
	if got := d.hosts["b"].Connects(); got <= dialsB {
		t.Error("host b changed and was not dialled again")
	}
	if got, want := d.placements(), []string{"on-a", "on-b", "on-c"}; !slices.Equal(got, want) {
		t.Errorf("placements: got %v, want %v", got, want)
	}
	if !strings.Contains(d.log.String(), `"msg":"configuration reloaded","file":"`+d.file+`","trigger":"signal","changed":["kvm2.hosts.b","kvm2.hosts.c","kvm2.placements.on-c"]`) {
		t.Errorf("no line tells what changed in:\n%s", d.log)
	}
	d.stopped(t)
}

func TestReload_maintenanceKeepsTheLink(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startReloadable(t, time.Hour, hostLines("a"))
	d.touch("a")
	dials := d.hosts["a"].Connects()
	d.write(t, hostLines("a , maintenance: true"))
	d.hangup(reloadApplied)
	d.touch("a")
	if got := d.hosts["a"].Connects(); got != dials {
		t.Errorf("%d dials, then %d: the way to the host did not change", dials, got)
	}
	status, problem := d.call(http.MethodPost, d.api+"/instances", `{"name":"x","placement":"on-a"}`)
	if status != http.StatusServiceUnavailable || problem["reason"] != "HostInMaintenance" {
		t.Errorf("create: got %d %v, want 503 HostInMaintenance", status, problem)
	}
	d.write(t, hostLines("a"))
	d.hangup(reloadApplied)
	if status, got := d.call(http.MethodPost, d.api+"/instances", `{"name":"x","placement":"on-a"}`); status != http.StatusCreated {
		t.Errorf("create after maintenance: got %d %v, want 201", status, got)
	}
	d.stopped(t)
}

func TestReload_refusedKeepsTheOldOne(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startReloadable(t, time.Hour, hostLines("a", "b"))
	for _, tt := range []struct{ name, kvm2, want string }{
		{"a host removed", hostLines("a"), "hosts removed or renamed: b: "},
		{"a host renamed", hostLines("a", "c"), "hosts removed or renamed: b: "},
		{"faults", "  hosts: []\n  owner: A\n", "kvm2.hosts: line 2: at least one host is needed; kvm2.owner: line 3: want a DNS label"},
		{"a host that cannot be set up", hostLines("a", "b", "c", "zzz"), "set up host zzz: no such host"},
		{"not YAML", "\t", "line 2: not YAML: "},
		{"a panic", hostLines("a", "b", "panics"), "panic of type string"},
	} {
		logged := len(d.log.String())
		d.write(t, tt.kvm2)
		d.hangup(reloadRefused)
		said := d.log.String()[logged:]
		if n := strings.Count(said, `"msg":"configuration not reloaded, the old one stays in force"`); n != 1 || !strings.Contains(said, tt.want) {
			t.Errorf("%s: got %d lines, want one with %q:\n%s", tt.name, n, tt.want, said)
		}
		if got, want := d.placements(), []string{"on-a", "on-b"}; !slices.Equal(got, want) {
			t.Errorf("%s: placements: got %v, want %v", tt.name, got, want)
		}
		if got := d.touch("b"); got != http.StatusOK {
			t.Errorf("%s: host b: got %d, want 200", tt.name, got)
		}
		if got := d.metric("kvm2d_config_last_reload_successful"); got != 0 {
			t.Errorf("%s: kvm2d_config_last_reload_successful: got %v, want 0", tt.name, got)
		}
	}
	if err := os.Remove(d.file); err != nil {
		t.Fatal(err)
	}
	d.hangup(reloadRefused)
	d.write(t, hostLines("a", "b"))
	d.hangup(reloadUnchanged)
	if got := d.metric("kvm2d_config_last_reload_successful"); got != 1 {
		t.Errorf("kvm2d_config_last_reload_successful once it is good again: got %v, want 1", got)
	}
	d.stopped(t)
}

func TestReload_namesWhatNeedsARestart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startReloadable(t, time.Hour, hostLines("a"))
	d.write(t, "  owner: other\n"+hostLines("a")+"timeouts: {dial: 1s}\n")
	for range 2 { // it is not forgotten
		logged := len(d.log.String())
		d.hangup(reloadUnchanged)
		if said := d.log.String()[logged:]; !strings.Contains(said, `"level":"WARN"`) || !strings.Contains(said, `"needs_restart":["timeouts.dial","kvm2.owner"]`) {
			t.Errorf("no line tells what needs a restart in:\n%s", said)
		}
	}
	d.stopped(t)
}

func TestReload_takesAChangedFileOnceItIsWhole(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startReloadable(t, 20*time.Millisecond, hostLines("a"))
	whole := hostLines("a", "b")
	d.write(t, whole)
	until(t, "the changed file", func() bool { return slices.Equal(d.placements(), []string{"on-a", "on-b"}) })
	d.write(t, "  hosts: [\n")
	until(t, "the faulty file", func() bool { return d.metric("kvm2d_config_last_reload_successful") == 0 })
	d.write(t, whole)
	until(t, "the good file", func() bool { return d.metric("kvm2d_config_last_reload_successful") == 1 })
	if n := strings.Count(d.log.String(), "configuration not reloaded"); n != 1 {
		t.Errorf("a faulty file was spoken of %d times, want once", n)
	}
	d.stopped(t)
}

// TestReload_underLoad has callers meet one configuration or the other, never neither.
func TestReload_underLoad(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startReloadable(t, time.Hour, hostLines("a", "b"))
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for _, h := range []string{"a", "b"} {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-quit:
					return
				default:
				}
				id := fmt.Sprintf("/instances/hosts/%s/domains/x%d", h, n)
				if status, got := d.call(http.MethodPost, d.api+"/instances", fmt.Sprintf(`{"name":"x%d","placement":"on-%s"}`, n, h)); status != http.StatusCreated {
					t.Errorf("create on %s: got %d %v", h, status, got)
				}
				if status, got := d.call(http.MethodDelete, d.api+id, ""); status != http.StatusNoContent {
					t.Errorf("delete on %s: got %d %v", h, status, got)
				}
			}
		})
	}
	for n := range 8 {
		more := []string{"b", "b , passphraseFile: /p", "b , maintenance: false, socket: /s"}[n%3]
		d.write(t, hostLines("a", more))
		d.hangups <- syscall.SIGHUP
		until(t, "the reload", func() bool { return d.reloads(reloadApplied)+d.reloads(reloadUnchanged) == n+1 })
	}
	close(quit)
	wg.Wait()
	if got := d.reloads(reloadRefused); got != 0 {
		t.Errorf("%d reloads were refused:\n%s", got, d.log)
	}
	d.stopped(t)
}
