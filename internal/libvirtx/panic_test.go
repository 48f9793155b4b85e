package libvirtx

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const panicSentinel = "sentinel-of-a-panic"

// panicLog collects what is logged, and says whether one stack was told and
// nothing of the panic's value.
type panicLog struct{ bytes.Buffer }

func (l *panicLog) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(&l.Buffer, nil)) }

func (l *panicLog) wantOneStack(t *testing.T) {
	t.Helper()
	if n := strings.Count(l.String(), `"stack":`); n != 1 || !strings.Contains(l.String(), `"level":"ERROR"`) {
		t.Errorf("got %d stacks in the log, want 1 in a line of level ERROR:\n%s", n, l)
	}
	if strings.Contains(l.String(), panicSentinel) {
		t.Errorf("the log shows the value of the panic:\n%s", l)
	}
}

func wantInternal(t *testing.T, err error) {
	t.Helper()
	if got := Classify(err); got != instance.ReasonInternal || strings.Contains(err.Error(), panicSentinel) {
		t.Errorf("got reason %s (%v), want Internal, and nothing of the panic's value", got, err)
	}
}

// TestLink_panicInACallIsThatCallsError: the process lives, the session does not.
func TestLink_panicInACallIsThatCallsError(t *testing.T) {
	for _, callerLeft := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			log := &panicLog{}
			var panicked atomic.Bool
			enter := make(chan struct{})
			f := always(func(*fakeConn, string) error {
				if panicked.CompareAndSwap(false, true) {
					<-enter
					panic(panicSentinel)
				}
				return nil
			})
			l := newTestLink(t, LinkOptions{Connector: f, Log: log.logger()})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			result := make(chan error, 1)
			go func() {
				_, err := l.Backend().ConnectGetLibVersion(ctx)
				result <- err
			}()
			synctest.Wait()
			if callerLeft {
				leave()
				if err := <-result; Classify(err) != instance.ReasonCancelled {
					t.Errorf("got %v for the caller that left, want Cancelled", err)
				}
				close(enter)
			} else {
				close(enter)
				wantInternal(t, <-result)
			}
			synctest.Wait()
			if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
				t.Errorf("the next call = %v", err)
			}
			if dials, _ := f.counts(); dials != 2 {
				t.Errorf("got %d dials, want the session replaced", dials)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			log.wantOneStack(t)
		})
	}
}

func TestLink_panicInADialIsItsError(t *testing.T) {
	log := &panicLog{}
	f := &fakeConnector{next: func(_ context.Context, n int) (Conn, error) {
		if n == 1 {
			panic(panicSentinel)
		}
		return newFakeConn(nil), nil
	}}
	l := newTestLink(t, LinkOptions{Connector: f, Log: log.logger()})
	_, err := l.Backend().ConnectGetLibVersion(t.Context())
	wantInternal(t, err)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	log.wantOneStack(t)
}

// panicking is a source whose reading panics, as a decompressor might.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic(panicSentinel) }

// TestUpload_panicInItsSourceIsItsError: the source is read ahead, on a
// goroutine of the session.
func TestUpload_panicInItsSourceIsItsError(t *testing.T) {
	l := newTestLink(t, LinkOptions{Connector: always(nil)})
	src := io.MultiReader(iotest.OneByteReader(strings.NewReader("ab")), panicking{})
	err := l.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{}, src, 0, 10)
	wantInternal(t, err)
	if _, ok := instance.PanicStack(err); !ok {
		t.Error("who handles the error finds no stack to log")
	}
}
