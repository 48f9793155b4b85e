//go:build k8s

package k8s_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// fetch reads a URL of the cluster.
func fetch(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: clusterTransport(t)}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, response.Status, err)
	}
	return content
}

// gate serves a disk image, and stops in the middle of it until it is opened.
type gate struct {
	url, sha256 string
	content     []byte
	waiting     chan struct{} // gets one for each download that reached the middle
	gone        chan struct{} // gets one for each of them that was given up
	opened      chan struct{} // closed by open
	open        func()
}

// newGate serves the lab's image, slightly changed so that no host has it, at
// the node's address until the test ends.
func newGate(t *testing.T) *gate {
	t.Helper()
	// What follows the last cluster of a qcow2 file is not looked at.
	content := append(fetch(t, imagesURL+"/tiny.qcow2"), make([]byte, 1<<16)...)
	sum := sha256.Sum256(content)
	g := &gate{
		sha256: hex.EncodeToString(sum[:]), content: content,
		waiting: make(chan struct{}, 16), gone: make(chan struct{}, 16), opened: make(chan struct{}),
	}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	listener, err := net.Listen("tcp", net.JoinHostPort(nodeAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	g.url = "http://" + listener.Addr().String() + "/tiny.qcow2"
	server := &http.Server{Handler: g}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		g.open()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return g
}

// ServeHTTP sends half of the image, waits for the gate to open, and sends the rest.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(g.content)))
	if r.Method == http.MethodHead {
		return
	}
	half := len(g.content) / 2
	if _, err := w.Write(g.content[:half]); err != nil {
		return
	}
	_ = http.NewResponseController(w).Flush()
	select {
	case <-g.opened:
	default:
		g.waiting <- struct{}{}
		select {
		case <-g.opened:
		case <-r.Context().Done():
			g.gone <- struct{}{}
			return
		}
	}
	_, _ = w.Write(g.content[half:])
}
