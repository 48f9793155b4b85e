package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// sentinels are the secrets of one run, each with what tells that it was used.
type sentinels struct {
	dir string
	// secrets are texts that must come out nowhere, by what they are.
	secrets map[string]string
	logins  atomic.Int32
	// fetched counts the downloads that showed the password.
	fetched atomic.Int32
	seeded  atomic.Int32
	panics  atomic.Int32
}

func newSentinels(t *testing.T) *sentinels {
	t.Helper()
	s := &sentinels{dir: t.TempDir(), secrets: map[string]string{}}
	for _, what := range []string{"user data", "passphrase", "wrong passphrase", "broken key", "token", "wrong token", "URL password"} {
		b := make([]byte, 12)
		_, _ = rand.Read(b) // never fails
		s.secrets[what] = "s3ntinel" + hex.EncodeToString(b)
	}
	return s
}

func (s *sentinels) file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sshHosts adds hosts behind an SSH server that takes the key and then forwards
// nothing: one with the right passphrase, one with a wrong one, one whose key
// cannot be parsed.
func (s *sentinels) sshHosts(t *testing.T, cfg *config.Config) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(s.secrets["passphrase"]))
	if err != nil {
		t.Fatal(err)
	}
	armoured := string(pem.EncodeToMemory(block))
	s.secrets["key file"] = strings.Split(armoured, "\n")[3]
	s.secrets["key"] = string(private.Seed())
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	addr := s.serveSSH(t, signer)
	key, known := s.file(t, "key", armoured), s.file(t, "known_hosts", knownhosts.Line([]string{addr}, signer.PublicKey()))
	broken := s.file(t, "broken", "-----BEGIN OPENSSH PRIVATE KEY-----\n"+s.secrets["broken key"]+"\n-----END OPENSSH PRIVATE KEY-----\n")
	for name, files := range map[string][2]string{
		"ssh-right":  {key, s.file(t, "right", s.secrets["passphrase"]+"\n")},
		"ssh-wrong":  {key, s.file(t, "wrong", s.secrets["wrong passphrase"])},
		"ssh-broken": {broken, ""},
	} {
		cfg.KVM2.Hosts = append(cfg.KVM2.Hosts, config.Host{
			Name: name, URI: "qemu+ssh://sentinel@" + addr + "/system", SSHKeyFile: files[0], PassphraseFile: files[1],
			KnownHostsFile: known, Pool: "default", Network: "default", DomainType: "auto",
		})
		cfg.KVM2.Placements[name] = config.Placement{Host: name, Image: "good", Size: "small"}
	}
}

// serveSSH counts the logins with the key and opens no channel.
func (s *sentinels) serveSSH(t *testing.T, key ssh.Signer) (addr string) {
	t.Helper()
	server := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, offered ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(offered.Marshal(), key.PublicKey().Marshal()) {
			return nil, errors.New("another key")
		}
		return &ssh.Permissions{}, nil
	}}
	server.AddHostKey(key)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		c, channels, requests, err := ssh.NewServerConn(conn, server)
		if err != nil {
			return
		}
		s.logins.Add(1)
		go ssh.DiscardRequests(requests)
		for channel := range channels {
			_ = channel.Reject(ssh.Prohibited, "no")
		}
		_ = c.Close()
	}
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	return l.Addr().String()
}

// images serves one good image and some that are none, to who has the password.
func (s *sentinels) images(t *testing.T, cfg *config.Config) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != s.secrets["URL password"] {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.fetched.Add(1)
		switch r.URL.Path {
		case "/good.qcow2":
			res, err := sim.Images{FileBytes: 256 << 10}.RoundTrip(r)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			defer func() { _ = res.Body.Close() }()
			w.Header().Set("Content-Length", res.Header.Get("Content-Length"))
			_, _ = io.Copy(w, res.Body)
		case "/elsewhere":
			http.Redirect(w, r, "/absent", http.StatusFound)
		case "/text":
			_, _ = io.WriteString(w, "this is no image")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	at := strings.Replace(server.URL, "http://", "http://downloader:"+s.secrets["URL password"]+"@", 1)
	for name, path := range map[string]string{"good": "/good.qcow2", "absent": "/absent", "text": "/text", "moved": "/elsewhere"} {
		cfg.KVM2.Images[name] = config.Image{URL: at + path, Firmware: "uefi"}
	}
	cfg.KVM2.Images["refused"] = config.Image{URL: "http://downloader:" + s.secrets["URL password"] + "@127.0.0.1:1/x", Firmware: "uefi"}
}

// panicking is a handler of log lines that panics, with the user data, on the
// line of the first seed's upload.
type panicking struct {
	slog.Handler
	s *sentinels
}

func (p panicking) Handle(ctx context.Context, r slog.Record) error {
	var call, volume string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "call":
			call = a.Value.String()
		case "volume":
			volume = a.Value.String()
		}
		return true
	})
	if call == "StorageVolUpload" && strings.HasSuffix(volume, ".seed.iso") && p.s.panics.CompareAndSwap(0, 1) {
		panic(p.s.secrets["user data"])
	}
	return p.Handler.Handle(ctx, r)
}

func (p panicking) WithAttrs(attrs []slog.Attr) slog.Handler {
	return panicking{p.Handler.WithAttrs(attrs), p.s}
}

func (p panicking) WithGroup(name string) slog.Handler {
	return panicking{p.Handler.WithGroup(name), p.s}
}

// TestSentinels_comeOutNowhere runs a whole daemon with secrets everywhere that
// it is given any, lets as much as possible go wrong, and looks at all that came
// out: log, answers, metrics, spans, a panic among the causes. Each secret must
// have been used.
func TestSentinels_comeOutNowhere(t *testing.T) {
	s := newSentinels(t)
	traces := &receiver{spans: make(map[string]*tracev1.Span)}
	collector := httptest.NewServer(traces)
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	d := startDaemon(t, func(o *appOptions) {
		s.images(t, o.Config)
		s.sshHosts(t, o.Config)
		// To unlock a key takes its time, under the race detector a long one.
		o.Config.Timeouts.Dial, o.Config.Timeouts.Stall = time.Minute, 2*time.Second
		o.Config.ProbeInterval = time.Hour
		o.Config.Server.Auth.Token = &config.TokenAuth{File: s.file(t, "tokens", "operator full "+s.secrets["token"]+"\n")}
		o.Log = slog.New(panicking{o.Log.Handler(), s})
		simulated := o.Backends.connector
		o.Backends.downloads = nil
		o.Backends.connector = func(h config.Host) (libvirtx.Connector, error) {
			if strings.HasPrefix(h.Name, "ssh-") {
				return realBackends().connector(h)
			}
			return simulated(h)
		}
	})
	d.client.Timeout = 2 * time.Minute // a list waits for the keys of three hosts
	out := s.provoke(t, d)
	if err := d.end(); err != nil {
		t.Error(err)
	}
	d.client.CloseIdleConnections()
	out.WriteString(d.log.String())
	for _, span := range traces.spans {
		fmt.Fprintln(out, span.String())
	}
	s.wantUsed(t, d)
	for what, secret := range s.secrets {
		for form, text := range forms(secret) {
			if i := strings.Index(out.String(), text); i >= 0 {
				all := out.String()
				t.Errorf("the %s %s came out: …%s…", what, form, all[max(0, i-300):min(len(all), i+100)])
			}
		}
	}
}

// forms are the texts by which a secret can come out of careless code.
func forms(secret string) map[string]string {
	found := map[string]string{
		"as it is": secret, "in hex": hex.EncodeToString([]byte(secret)), "escaped": url.QueryEscape(secret),
		"as numbers": strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]"),
	}
	// It is a part of something larger, and base64 of it depends on how far from the start it is: shift bytes before it
	// have a share in the first characters, and what follows it in the last one.
	for shift := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat(" ", shift) + secret))
		found[fmt.Sprintf("in base64, %d bytes on", shift)] = encoded[(shift*8+5)/6 : (shift+len(secret))*8/6]
	}
	return found
}

// wantUsed fails for every secret that the run did not need.
func (s *sentinels) wantUsed(t *testing.T, d *running) {
	t.Helper()
	for what, used := range map[string]bool{
		"key and passphrase": s.logins.Load() > 0,
		"URL password":       s.fetched.Load() > 3,
		"user data":          s.seeded.Load() > 0,
		"panic":              s.panics.Load() > 0 && strings.Contains(d.log.String(), "panic of type string"),
		"wrong passphrase":   strings.Contains(d.log.String(), "is not unlocked by the passphrase"),
		"broken key":         strings.Contains(d.log.String(), "is not a private key"),
		"tokens":             strings.Contains(d.log.String(), `"caller":"operator"`) && strings.Contains(d.log.String(), `"status":401`),
	} {
		if !used {
			t.Errorf("%s: not used in this run, which then proves nothing of it", what)
		}
	}
}

// provoke makes the daemon do and refuse all kinds of things, and returns what
// it said.
func (s *sentinels) provoke(t *testing.T, d *running) *strings.Builder {
	t.Helper()
	out := &strings.Builder{}
	call := func(token, method, target, body string) int {
		status, text := s.call(t, d, token, method, target, body)
		out.WriteString(text)
		return status
	}
	data := s.secrets["user data"]
	spec := func(name, placement, image string) string {
		return fmt.Sprintf(`{"name":%q,"placement":%q,"image":%q,"uid":"u","cloudInit":"#!/bin/sh\n%s\n"}`, name, placement, image, data)
	}
	token := s.secrets["token"]
	// The first create meets the panic, the second goes through.
	if got := call(token, http.MethodPost, d.api+"/instances", spec("vm", "sim-1", "good")); got != http.StatusInternalServerError {
		t.Errorf("got status %d from a create that panics, want 500", got)
	}
	if got := call(token, http.MethodPost, d.api+"/instances", spec("vm", "sim-1", "good")); got == http.StatusCreated {
		s.seeded.Add(1)
	}
	for _, image := range []string{"absent", "text", "moved", "refused", data} {
		call(token, http.MethodPost, d.api+"/instances", spec("vm-2", "sim-2", image))
	}
	call(token, http.MethodPost, d.api+"/instances", spec("vm-3", data, ""))
	for _, placement := range []string{"ssh-right", "ssh-wrong", "ssh-broken"} {
		call(token, http.MethodPost, d.api+"/instances", spec("vm-3", placement, ""))
		call(token, http.MethodGet, d.api+"/instances/hosts/"+placement+"/domains/vm", "")
		call(token, http.MethodDelete, d.api+"/instances/hosts/"+placement+"/domains/vm?uid="+data, "")
	}
	for _, body := range []string{
		data, `"` + data + `"`, `{"name":["` + data + `"]}`, `{"name":"` + data + `_","placement":"` + data + ` "}`,
		`{"name":"vm","placement":"sim-1","cloudInit":"` + data + `","cloudInitBase64":"` + data + `"}`,
		`{"name":"vm","placement":"sim-1","uid":"other","cloudInit":"` + data + `"}`,
	} {
		call(token, http.MethodPost, d.api+"/instances", body)
		call(s.secrets["wrong token"], http.MethodPost, d.api+"/instances", body)
		call("", http.MethodPost, d.api+"/instances", body)
	}
	for _, target := range []string{
		"/instances", "/instances?partial=true", "/instances?tag=" + data, "/instances/hosts/sim-1/domains/vm/console", "/health", "/images",
		"/placements", "/version", "/", "/docs",
	} {
		call(token, http.MethodGet, d.api+target, "")
		call(s.secrets["wrong token"], http.MethodGet, d.api+target, "")
	}
	out.WriteString(d.text(d.admin+"/metrics") + d.text(d.admin+"/readyz"))
	call(token, http.MethodDelete, d.api+"/instances/hosts/sim-1/domains/vm", "")
	return out
}

// call returns the status, and head and body of the answer as text.
func (s *sentinels) call(t *testing.T, d *running, token, method, target, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, fmt.Sprint(res.Header) + string(text)
}
