package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// pagesWorld is a simulation whose time, downloads and hosts a test rules.
type pagesWorld struct {
	hosts map[string]*sim.Host
	// later is how far the guests' clocks are ahead.
	later atomic.Int64
	// quarters of the image; each comes once its channel is closed.
	quarters [4]chan struct{}
}

// newPagesWorld adjusts a daemon to three hosts: one is ready, one in
// maintenance, one dead.
func newPagesWorld(o *appOptions) *pagesWorld {
	w := &pagesWorld{hosts: map[string]*sim.Host{}}
	for i := range w.quarters {
		w.quarters[i] = make(chan struct{})
	}
	hosts := o.Config.KVM2.Hosts[:1]
	for _, name := range []string{"beelink", "nuc", "rack-3"} {
		h := hosts[0]
		h.Name, h.URI, h.Maintenance = name, "qemu+ssh://sim@"+name+".invalid/system", name == "nuc"
		hosts = append(hosts, h)
		o.Config.KVM2.Placements[name] = config.Placement{Host: name, Image: "debian-13", Size: "small"}
		w.hosts[name] = sim.NewHost(sim.Options{
			Name: name, BootDelay: time.Hour, ARPDelay: time.Hour,
			Now: func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) },
		})
	}
	o.Config.KVM2.Hosts = hosts[1:]
	o.Config.KVM2.Placements = map[string]config.Placement{"beelink": o.Config.KVM2.Placements["beelink"], "nuc": o.Config.KVM2.Placements["nuc"]}
	o.Config.ProbeInterval = 300 * time.Millisecond
	o.Backends = backends{
		connector: func(h config.Host) (libvirtx.Connector, error) { return w.hosts[h.Name], nil },
		downloads: w,
	}
	w.hosts["rack-3"].Down(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	return w
}

// pagesImageBytes is the length of the image.
const pagesImageBytes = 1 << 20

// RoundTrip brings the image in quarters, each once the test lets it come.
func (w *pagesWorld) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := sim.Images{FileBytes: pagesImageBytes}.RoundTrip(req)
	if err == nil && req.Method == http.MethodGet {
		res.Body = &quartered{ReadCloser: res.Body, quarters: w.quarters, gone: req.Context().Done()}
	}
	return res, err
}

type quartered struct {
	io.ReadCloser
	quarters [4]chan struct{}
	gone     <-chan struct{}
	done     int
}

func (q *quartered) Read(p []byte) (int, error) {
	const quarter = pagesImageBytes / 4
	if q.done < pagesImageBytes {
		select {
		case <-q.quarters[q.done/quarter]:
		case <-q.gone:
			return 0, context.Canceled
		}
	}
	n, err := q.ReadCloser.Read(p[:min(len(p), quarter-q.done%quarter)])
	q.done += n
	return n, err
}

// shots returns the browser to use and the folder for the screenshots.
func shots(t *testing.T) (path, dir string) {
	t.Helper()
	path, dir = os.Getenv("KVM2D_BROWSER"), os.Getenv("KVM2D_SHOTS")
	if path == "" || dir == "" {
		t.Skip("needs a browser: make page-shots")
	}
	return path, dir
}

func badge(selector string) string {
	return `document.querySelector('` + selector + ` .badge')?.textContent`
}

// isRed is whether an element's background is.
func isRed(selector string) string {
	return `(() => {
		const [r, g, b] = getComputedStyle(document.querySelector('` + selector + `')).backgroundColor.match(/\d+/g).map(Number);
		return r > 1.1 * g && r > 1.1 * b;
	})()`
}

const (
	oneInstance = `[data-instance="hosts/beelink/domains/proxy-1"]`
	oneImage    = `[data-image="debian-13"][data-of-host="beelink"]`
)

// TestPages_status follows the life of an instance on a page that is opened once.
func TestPages_status(t *testing.T) {
	path, dir := shots(t)
	var w *pagesWorld
	d := startDaemon(t, func(o *appOptions) { w = newPagesWorld(o) })
	b := startBrowser(t, path)
	p := b.open(d.api + "/")
	p.look(1280, 900, false)

	p.shows(badge(".overall"), "degraded")
	p.shows(badge(`[data-host="beelink"]`), "Ready")
	p.shows(isRed(`[data-host="beelink"] .badge`), "false")
	p.shows(badge(`[data-host="nuc"]`), "Maintenance")
	p.shows(badge(`[data-host="rack-3"]`), "Unreachable")
	p.shows(badge(oneImage), "absent")
	p.shot(dir, "status-empty-light", true)

	created := make(chan int, 1)
	go func() {
		status, _ := d.call(http.MethodPost, d.api+"/instances", `{"name":"proxy-1","placement":"beelink"}`)
		created <- status
	}()
	progress := `Number(document.querySelector('` + oneImage + ` .bar')?.ariaValueNow ?? 0)`
	close(w.quarters[0])
	p.shows(badge(oneImage), "downloading")
	close(w.quarters[1])
	p.shows(progress+` > 0`, "true")
	p.shot(dir, "status-downloading-light", true)
	before := p.eval(progress)
	close(w.quarters[2])
	p.shows(progress+` > `+before, "true")
	close(w.quarters[3])
	p.shows(badge(oneImage), "ready")
	if got := <-created; got != http.StatusCreated {
		t.Fatalf("create: got %d, want 201", got)
	}
	p.shows(badge(oneInstance), "Provisioning")
	for _, name := range []string{"proxy-2", strings.Repeat("long-name-", 6) + "end"} {
		if status, got := d.call(http.MethodPost, d.api+"/instances", `{"name":"`+name+`","placement":"beelink"}`); status != http.StatusCreated {
			t.Fatalf("create: got %d %v", status, got)
		}
	}
	w.later.Store(int64(2 * time.Hour)) // the guests have booted
	if err := w.hosts["beelink"].Crash("proxy-2"); err != nil {
		t.Fatal(err)
	}
	p.shows(badge(oneInstance), "Running")
	p.shows(badge(`[data-instance="hosts/beelink/domains/proxy-2"]`), "Stopped")

	for _, dark := range []bool{false, true} {
		scheme := map[bool]string{false: "-light", true: "-dark"}[dark]
		p.look(1280, 900, dark)
		p.shows(isRed(`[data-host="rack-3"] .badge`), "true")
		p.shows(isRed(oneInstance+` .badge`), "false")
		p.shot(dir, "status-desktop"+scheme, true)
		p.look(360, 740, dark)
		p.shows(`document.documentElement.scrollWidth <= innerWidth`, "true")
		p.shot(dir, "status-phone"+scheme, true)
	}

	// The last good host dies under the page.
	w.hosts["beelink"].Down(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH})
	w.hosts["beelink"].Drop()
	p.look(1280, 900, false)
	p.shows(badge(".overall"), "down")
	p.shows(isRed(`[data-host="beelink"] .badge`), "true")
	p.shows(`document.title`, "kvm2d: down")
	p.shows(`document.querySelectorAll('.note.bad').length`, "2")
	p.shot(dir, "status-down-light", true)
	b.wantOnly(d.api)

	// And then the daemon.
	if err := d.end(); err != nil {
		t.Errorf("run: %v", err)
	}
	p.shows(`document.getElementById('silent').hidden`, "false")
	p.shot(dir, "status-silent-light", true)
	d.client.CloseIdleConnections()
}

// TestPages_password opens both pages as somebody does who has only a token.
func TestPages_password(t *testing.T) {
	path, dir := shots(t)
	const token = "a-token-of-at-least-this-length-0123456789"
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("viewer read "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, func(o *appOptions) {
		newPagesWorld(o)
		o.Config.Server.Auth.Token = &config.TokenAuth{File: tokens}
	})
	b := startBrowser(t, path)
	url := strings.Replace(d.api, "http://", "http://me:"+token+"@", 1)
	status := b.open(url + "/")
	status.shows(badge(`[data-host="beelink"]`), "Ready")
	status.shows(`document.URL`, d.api+"/") // the token is out of sight
	status.eval(`document.querySelector('main').textContent = ''`)
	status.shows(badge(`[data-host="beelink"]`), "Ready") // it refreshed itself

	p := b.open(url + "/docs")
	p.look(1280, 900, false)
	for _, heading := range []string{"Create an instance", "List base images", "Check every host"} {
		p.shows(`[...document.querySelectorAll('h2')].some(h => h.textContent.includes('`+heading+`'))`, "true")
	}
	p.shot(dir, "docs-desktop-light", false)
	p.eval(`document.getElementById('tag/instances/operation/createInstance').scrollIntoView()`)
	p.shot(dir, "docs-operation-light", false)
	p.look(360, 740, false)
	p.shows(`document.documentElement.scrollWidth <= innerWidth`, "true")
	p.eval(`scrollTo(0, 0)`)
	p.shot(dir, "docs-phone-light", false)
	b.wantOnly(d.api, url)
	if err := d.end(); err != nil {
		t.Errorf("run: %v", err)
	}
	d.client.CloseIdleConnections()
}
