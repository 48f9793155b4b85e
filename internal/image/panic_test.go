package image

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const panicSentinel = "sentinel-of-a-panic"

// TestEnsureImage_panicIsTheErrorOfItsWork: in whatever goroutine of the cache it
// happens, those who wait get Transient, Internal, the next one a whole image,
// and the log one stack and nothing of the value.
func TestEnsureImage_panicIsTheErrorOfItsWork(t *testing.T) {
	for _, at := range []struct {
		call string
		// nth of the calls with that name panics.
		nth int32
	}{{"CreateVolume", 1}, {"Upload", 1}, {"CreateVolume", 2}} {
		t.Run(at.call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				content := qcow2Bytes(t, 1<<20, 2<<20)
				pool := newMemPool(testHost)
				k := newKit(t, pool, &site{content: content})
				defer k.close(t)
				var calls atomic.Int32
				pool.plant(func(call, _ string, done bool) error {
					if call == at.call && !done && calls.Add(1) == at.nth {
						<-time.After(time.Second)
						panic(panicSentinel)
					}
					return nil
				})
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						_, err := k.ensure(context.WithoutCancel(t.Context()), imageOf(content))
						wantReason(t, err, instance.ReasonInternal)
					})
				}
				both.Wait()
				k.wantOneStack(t)
				k.mustEnsure(t, imageOf(content))
			})
		})
	}
}

// TestEnsureImage_panicInTheProbe: of those who share one look at a source, too.
func TestEnsureImage_panicInTheProbe(t *testing.T) {
	content := qcow2Bytes(t, 1<<20, 2<<20)
	once := &panickingOnce{next: wire{&site{content: content}}}
	k := newKit(t, newMemPool(testHost), &site{}, withTransport(once))
	_, err := k.ensure(t.Context(), imageOf(content))
	wantReason(t, err, instance.ReasonInternal)
	if _, ok := instance.PanicStack(err); !ok {
		t.Error("who handles the error finds no stack to log")
	}
	k.mustEnsure(t, imageOf(content))
}

// TestContent_panicInTheBody: the clock of a read that panicked runs out when its
// connection is long closed.
func TestContent_panicInTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, 1<<20, 2<<20)
		k := newKit(t, newMemPool(testHost), &site{}, withTransport(panickingBody{wire{&site{content: content}}}))
		defer k.close(t)
		c, err := k.cache.source.open(t.Context(), imageOf(content), newProgress(0), 0)
		if err != nil {
			t.Fatal(err)
		}
		err = instance.Guard(func() error {
			_, err := io.Copy(io.Discard, c)
			return err
		})
		if _, ok := instance.PanicStack(err); !ok {
			t.Errorf("read = %v, want a panic", err)
		}
		c.close()
		<-time.After(2 * testStall)
	})
}

// panickingBody is a transport whose answers panic when they are read beyond the head.
type panickingBody struct{ next http.RoundTripper }

func (p panickingBody) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(r)
	if err == nil {
		resp.Body = &panicsAfterHead{ReadCloser: resp.Body}
	}
	return resp, err
}

type panicsAfterHead struct {
	io.ReadCloser
	read int
}

func (b *panicsAfterHead) Read(p []byte) (int, error) {
	if b.read >= headBytes {
		panic(panicSentinel)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), headBytes-b.read)])
	b.read += n
	return n, err
}

// panickingOnce is a transport whose first request panics.
type panickingOnce struct {
	next     http.RoundTripper
	panicked atomic.Bool
}

func (p *panickingOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.panicked.CompareAndSwap(false, true) {
		panic(panicSentinel)
	}
	return p.next.RoundTrip(r)
}

// TestSweep_panicCostsThatSearch: the next contact begins another.
func TestSweep_panicCostsThatSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newMemPool(testHost)
		k := newKit(t, pool, &site{})
		defer k.close(t)
		var looks atomic.Int32
		pool.plant(func(call, _ string, _ bool) error {
			if call == "Volumes" && looks.Add(1) == 1 {
				panic(panicSentinel)
			}
			return nil
		})
		k.cache.watch(t.Context(), testHost, pool, false)
		synctest.Wait()
		k.wantOneStack(t)
		k.cache.watch(t.Context(), testHost, pool, false)
		synctest.Wait()
		if looks.Load() < 2 {
			t.Error("nobody looked again")
		}
	})
}

// wantOneStack fails unless the log holds one panic's stack and not its value.
func (k *kit) wantOneStack(t *testing.T) {
	t.Helper()
	log := k.log.String()
	if n := strings.Count(log, "stack="); n != 1 || !strings.Contains(log, "level=ERROR") || strings.Contains(log, panicSentinel) {
		t.Errorf("got %d stacks in the log, want 1 in a line of level ERROR, and nothing of the value:\n%s", n, log)
	}
}
