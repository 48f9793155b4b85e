package image

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// mirrors routes requests by host name to handlers in memory.
type mirrors map[string]http.Handler

func (m mirrors) RoundTrip(req *http.Request) (*http.Response, error) {
	h, ok := m[req.URL.Scheme+"://"+req.URL.Host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: req.URL.Hostname(), IsNotFound: true}
	}
	return wire{h}.RoundTrip(req)
}

func redirectTo(target string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", target)
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusFound)
	})
}

func TestEnsureImage_redirects(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	dns := noDNS{
		"inside.example.net": netip.MustParseAddr("127.0.0.1"),
		"mapped.example.net": netip.MustParseAddr("::ffff:169.254.169.254"),
	}
	good := &site{content: content}
	for _, tt := range []struct {
		name, from, to string
		want           instance.Reason
	}{
		{"http to https", "http://a.example.net", "https://b.example.net", ""},
		{"https to http", "https://a.example.net", "http://b.example.net", instance.ReasonImageUnavailable},
		{"to loopback", "http://a.example.net", "http://127.0.0.1", instance.ReasonImageUnavailable},
		{"to IPv6 loopback", "http://a.example.net", "http://[::1]", instance.ReasonImageUnavailable},
		{"to any address", "http://a.example.net", "http://0.0.0.0", instance.ReasonImageUnavailable},
		{"to link-local", "http://a.example.net", "http://169.254.169.254", instance.ReasonImageUnavailable},
		{"to a name of loopback", "http://a.example.net", "http://inside.example.net", instance.ReasonImageUnavailable},
		{"to a name of a mapped link-local", "http://a.example.net", "http://mapped.example.net", instance.ReasonImageUnavailable},
		{"loopback to loopback", "http://127.0.0.1", "http://inside.example.net", ""},
		{"to another scheme", "http://a.example.net", "ftp://b.example.net", instance.ReasonImageUnavailable},
		{"in circles", "http://a.example.net", "http://a.example.net", instance.ReasonImageUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool, img := newMemPool(testHost), imageOf(content)
			img.URL = tt.from + "/image"
			m := mirrors{tt.to: good}
			m[tt.from] = redirectTo(tt.to + "/file?signature=SENTINEL")
			k := newKit(t, pool, good, withTransport(m))
			k.cache.source.client = newClient(m, dns)
			_, err := k.ensure(t.Context(), img)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantReason(t, err, tt.want)
			if strings.Contains(err.Error(), "SENTINEL") {
				t.Errorf("the target's query is shown: %v", err)
			}
			if got := pool.writes(); len(got) != 0 {
				t.Errorf("got writes %v, want none", got)
			}
		})
	}
}

// A name that resolves to something harmless when it is checked and to loopback
// when it is dialled is refused by the dialer.
func TestClient_dialerRefusesLoopbackAfterRedirect(t *testing.T) {
	inside := httptest.NewServer(&site{content: []byte("secret")})
	defer inside.Close()
	port := netip.MustParseAddrPort(inside.Listener.Addr().String()).Port()
	target := "http://localhost:" + strings.TrimPrefix(netip.AddrPortFrom(netip.IPv4Unspecified(), port).String(), "0.0.0.0:")
	m := mirrors{"http://a.example.net": redirectTo(target)}
	client := newClient(mixed{m, newTransport()}, noDNS{"localhost": netip.MustParseAddr("192.0.2.1")})
	s := &source{client: client, stall: testStall}
	_, err := s.connect(t.Context(), instance.Image{Name: "x", URL: "http://a.example.net/"}, position{}, testStall)
	if got := instance.ReasonOf(err); got != instance.ReasonImageUnavailable {
		t.Errorf("got %v, want the dial refused", err)
	}
}

// mixed sends what mirrors know to them, the rest over the network.
type mixed struct {
	mirrors
	network http.RoundTripper
}

func (m mixed) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, ok := m.mirrors[req.URL.Scheme+"://"+req.URL.Host]; ok {
		return m.mirrors.RoundTrip(req)
	}
	return m.network.RoundTrip(req)
}

// Over real sockets: a body that is cut is resumed, and no connection is kept.
func TestEnsureImage_overRealSockets(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, 3*mib)
	s := &site{content: content, etag: `"a"`}
	s.fault = s.cutAt(2, 2*mib)
	server := httptest.NewServer(s)
	defer server.Close()
	pool, img := newMemPool(testHost), imageOf(content)
	img.URL = server.URL + "/debian.qcow2"
	k := newKit(t, pool, s, withTransport(newTransport()))
	k.mustEnsure(t, img)
	wantClean(t, pool, img, content)
}

// User, password and query of a URL reach the source and nothing else.
func TestEnsureImage_credentialsAreNeverShown(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	for _, tt := range []struct {
		name string
		site *site
		url  string
	}{
		{"success", &site{content: content}, ""},
		{"404", &site{fault: status(http.StatusNotFound)}, ""},
		{"503", &site{fault: status(http.StatusServiceUnavailable)}, ""},
		{"no length", &site{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write(content)
			return true
		}}, ""},
		{"bad location", &site{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", "http://[SENTINEL/%zz")
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusFound)
			return true
		}}, ""},
		{"no such host", &site{}, "http://user:SENTINEL@nowhere.example.net/?token=SENTINEL"},
		{"bad URL", &site{}, "http://user:SENTINEL@[/"},
		{"bad scheme", &site{}, "s3://user:SENTINEL@bucket/?token=SENTINEL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			img := imageOf(content)
			img.URL = "http://user:SENTINEL@images.example.net/debian.qcow2?token=SENTINEL#SENTINEL"
			if tt.url != "" {
				img.URL = tt.url
			}
			pool := newMemPool(testHost)
			k := newKit(t, pool, tt.site, withTransport(mirrors{"http://images.example.net": tt.site}))
			_, err := k.ensure(t.Context(), img)
			k.close(t)
			out := bytes.NewBufferString(k.log.String())
			if err != nil {
				out.WriteString(err.Error())
			}
			for _, span := range k.spans.Ended() {
				for _, a := range span.Attributes() {
					out.WriteString(a.Value.String())
				}
				out.WriteString(span.Status().Description)
			}
			out.WriteString(strings.Join(pool.names(), " "))
			if strings.Contains(out.String(), "SENTINEL") {
				t.Errorf("a credential is shown:\n%s", out)
			}
		})
	}
}

// A redirect hands neither the credentials nor the query on.
func TestEnsureImage_redirectCarriesNoReferer(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	good, img := &site{content: content}, imageOf(content)
	img.URL = "http://user:pass@images.example.net/?token=SENTINEL"
	m := mirrors{"http://images.example.net": redirectTo("http://b.example.net/file"), "http://b.example.net": good}
	k := newKit(t, newMemPool(testHost), good, withTransport(m))
	k.mustEnsure(t, img)
	for _, h := range []string{"Referer", "Authorization"} {
		if got := good.header(1).Get(h); got != "" {
			t.Errorf("got %s %q at the second host, want none", h, got)
		}
	}
}

func TestIdentity_urlAndChecksumButNoCredentials(t *testing.T) {
	base := instance.Image{URL: "https://a.example.net/x", SHA256: "aa"}
	change := func(f func(*instance.Image)) instance.Image {
		img := base
		f(&img)
		return img
	}
	for _, tt := range []struct {
		name string
		img  instance.Image
		same bool
	}{
		{"the same", base, true},
		{"credentials", change(func(i *instance.Image) { i.URL = "https://u:p@a.example.net/x" }), true},
		{"URL", change(func(i *instance.Image) { i.URL = "https://a.example.net/y" }), false},
		{"checksum", change(func(i *instance.Image) { i.SHA256 = "ab" }), false},
		{"algorithm", change(func(i *instance.Image) { i.SHA256, i.SHA512 = "", "aa" }), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := identityOf(tt.img) == identityOf(base); got != tt.same {
				t.Errorf("got same %v, want %v", got, tt.same)
			}
		})
	}
	if got := identityOf(base); !isHex(got, identityHex) {
		t.Errorf("got identity %q, want %d hex digits", got, identityHex)
	}
}
