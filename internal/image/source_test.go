package image

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

func TestContinues_onlyTheRestOfTheSameFile(t *testing.T) {
	for value, want := range map[string]bool{
		"bytes 10-99/100": true,
		"":                false,
		"10-99/100":       false,
		"bytes 10-99":     false,
		"bytes 10/100":    false,
		"bytes 11-99/100": false,
		"bytes 10-98/100": false,
		"bytes 10-99/101": false,
		"bytes 10-99/*":   false,
		"bytes */100":     false,
	} {
		h := http.Header{"Content-Range": {value}}
		if got := continues(h, position{offset: 10, total: 100}); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

// openBodies counts the answers of a transport that are not closed.
type openBodies struct {
	next http.RoundTripper
	open atomic.Int32
}

func (o *openBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := o.next.RoundTrip(r)
	if err == nil {
		o.open.Add(1)
		res.Body = &countedBody{ReadCloser: res.Body, open: &o.open}
	}
	return res, err
}

type countedBody struct {
	io.ReadCloser
	open   *atomic.Int32
	closed atomic.Bool
}

func (b *countedBody) Close() error {
	if b.closed.CompareAndSwap(false, true) {
		b.open.Add(-1)
	}
	return b.ReadCloser.Close()
}

// TestEnsureImage_leavesNoConnection: neither the look at the source's head nor
// the download keeps its answer open, whole or cut; and none outlasts its last
// byte, whatever the pool still has to do.
func TestEnsureImage_leavesNoConnection(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	s := &site{content: content, etag: `"a"`}
	s.fault = s.cutAt(2, mib/2)
	bodies := &openBodies{next: wire{s}}
	pool, img := newMemPool(testHost), imageOf(content)
	pool.plant(func(call, name string, _ bool) error {
		if got := bodies.open.Load(); got != 0 && call == "CreateVolume" && name == keyOf(testHost, img).marker() {
			t.Errorf("%d answers are open while the image is marked", got)
		}
		return nil
	})
	newKit(t, pool, s, withTransport(bodies)).mustEnsure(t, img)
	if got := bodies.open.Load(); got != 0 {
		t.Errorf("%d answers are left open", got)
	}
}
