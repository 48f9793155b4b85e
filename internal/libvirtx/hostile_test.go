package libvirtx

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestHostile_answersThatPromiseTooMuch: a length in an answer that the answer
// does not hold costs the session, and neither memory nor the process.
func TestHostile_answersThatPromiseTooMuch(t *testing.T) {
	hostname := func(ctx context.Context, b Backend) error { _, err := b.ConnectGetHostname(ctx); return err }
	stats := func(ctx context.Context, b Backend) error { _, err := b.ConnectGetAllDomainStats(ctx); return err }
	words := func(w ...uint32) []byte {
		var b []byte
		for _, v := range w {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	// One domain called "a", without a UUID's bytes spared.
	domain := words(1, 1, 'a'<<24, 1, 2, 3, 4, 5)
	for name, row := range map[string]struct {
		proc   uint32
		status uint32
		body   []byte
		call   func(context.Context, Backend) error
	}{
		"string of 2 GiB less one": {procHostname, statusOK, words(0x7fffffff), hostname},
		"string of 4 GiB":          {procHostname, statusOK, words(0xffffffff), hostname},
		"error text of 2 GiB":      {procHostname, statusError, words(38, 0, 1, 0x7ffffffe), hostname},
		"2³¹ domains":              {procStats, statusOK, words(0x7fffffff, 0, 0, 0), stats},
		"2²⁸ numbers of a domain":  {procStats, statusOK, append(domain, words(1<<28)...), stats},
		"a number without a kind":  {procStats, statusOK, append(domain, words(1, 0, 99)...), stats},
		"the answer cut off":       {procStats, statusOK, domain[:10], stats},
	} {
		t.Run(name, func(t *testing.T) {
			f := serveLibvirt(t, &fakeLibvirtd{spoil: func(proc uint32, answer []byte) []byte {
				if proc != row.proc {
					return answer
				}
				_, h := parseHeader(answer)
				return whole(h.serial, proc, typeReply, row.status, row.body...)
			}})
			l := newTestLink(t, LinkOptions{Connector: NewLocalConnector(LocalOptions{Socket: f.socket})})
			if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := row.call(t.Context(), l.Backend())
			runtime.ReadMemStats(&after)
			if got := Classify(err); err == nil || got.Kind() != instance.Transient {
				t.Errorf("got %v, want a Transient error", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
				t.Errorf("allocated %d MiB", got>>20)
			}
			// Only the session was lost.
			if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// TestHostile_answersTwice: the second answer would lock the library up for good.
func TestHostile_answersTwice(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{spoil: func(proc uint32, answer []byte) []byte {
		if proc == procHostname {
			return bytes.Repeat(answer, 50)
		}
		return answer
	}})
	l, err := NewLink(LinkOptions{
		Host: "h1", Connector: NewLocalConnector(LocalOptions{Socket: f.socket}), Limits: Limits{Call: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := l.Backend().ConnectGetHostname(t.Context()); err != nil {
			t.Errorf("got %v, want the first answer", err)
			break
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("close hangs")
	}
}

// TestHostile_textIsTamed: what a host says of a failure is shown on terminals
// and kept in logs.
func TestHostile_textIsTamed(t *testing.T) {
	text := "no room\n\x1b]0;owned\x07 \u202e\xff" + string(bytes.Repeat([]byte("é"), 1<<20))
	f := serveLibvirt(t, &fakeLibvirtd{spoil: func(proc uint32, answer []byte) []byte {
		if proc != procHostname {
			return answer
		}
		_, h := parseHeader(answer)
		body := binary.BigEndian.AppendUint32(make([]byte, 12), uint32(len(text)))
		body[3] = byte(libvirt.ErrSystemError)
		body = append(append(body, text...), make([]byte, 32)...)
		return whole(h.serial, proc, typeReply, statusError, body...)
	}})
	_, err := connectLocal(t, f).ConnectGetHostname(t.Context())
	got, ok := errors.AsType[libvirt.Error](err)
	if !ok || got.Code != uint32(libvirt.ErrSystemError) {
		t.Fatalf("got %v, want error 38", err)
	}
	if want := "no room ]0;owned é"; got.Message[:len(want)] != want || len(got.Message) > 2100 {
		t.Errorf("got %d bytes: %q…", len(got.Message), got.Message[:min(40, len(got.Message))])
	}
}
