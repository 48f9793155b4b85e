package instance_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestCreate_patienceEndsAndARepeatJoins: C10.
func TestCreate_patienceEndsAndARepeatJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.setHook(slow("Ensure", time.Minute))
		began := time.Now()
		_, err := w.Create(t.Context(), spec("vm"), 20*time.Second)
		wantReason(t, err, instance.ReasonCreateInProgress, "alpha", "vm")
		var e *instance.Error
		if errors.As(err, &e); e.RetryAfter <= 0 {
			t.Errorf("got no RetryAfter: %+v", e)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("waited %s, want the patience", took)
		}
		got := w.mustCreate(t, spec("vm"))
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the repeat came back after %s, want with the work it joined", took)
		}
		if got.Made {
			t.Error("the repeat claims to have made it")
		}
		if w.images.downloads.Load() != 1 || w.host().defines != 1 {
			t.Errorf("got %d downloads and %d defines, want 1 and 1", w.images.downloads.Load(), w.host().defines)
		}
	})
}

func TestCreate_anotherUIDWaitsThenMeetsTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.setHook(slow("Ensure", 30*time.Second))
		var wg sync.WaitGroup
		wg.Go(func() { w.mustCreate(t, spec("vm")) })
		synctest.Wait()
		other := spec("vm")
		other.UID = "uid-2"
		_, err := w.Create(t.Context(), other, 10*time.Second)
		wantReason(t, err, instance.ReasonCreateInProgress, "alpha", "vm")
		_, err = w.Create(t.Context(), other, time.Hour)
		wantReason(t, err, instance.ReasonUIDMismatch, "alpha", "vm")
		wg.Wait()
	})
}

func TestCreate_workIsBoundedByCreateWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.setHook(slow("Ensure", 24*time.Hour))
		began := time.Now()
		_, err := w.Create(t.Context(), spec("vm"), 24*time.Hour)
		wantReason(t, err, instance.ReasonTimeout, "alpha", "vm")
		if took := time.Since(began); took != w.opts.CreateWait {
			t.Errorf("took %s, want %s", took, w.opts.CreateWait)
		}
	})
}

// TestCreate_goesOnWithoutItsCaller: a client that leaves in the middle; a
// second one waits for the same work (E5, C9).
func TestCreate_goesOnWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.setHook(slow("Start", time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.Create(ctx, spec("vm"), time.Hour)
		wantReason(t, err, instance.ReasonTimeout, "alpha", "vm")
		if got := w.mustCreate(t, spec("vm")); got.Made {
			t.Error("the second caller claims to have made it")
		}
		wantOneVM(t, w.host().room, "vm")
	})
}

func TestCreate_boundsWorkPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		running, most := 0, 0
		w.setHook(func(_ context.Context, call string) (before, after error) {
			if call != "Define" {
				return nil, nil
			}
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return nil, nil
		})
		var wg sync.WaitGroup
		for name := range strings.SplitSeq("a b c d e f g h i j", " ") {
			wg.Go(func() { w.mustCreate(t, spec(name)) })
		}
		wg.Wait()
		if most != w.opts.CreatesPerHost {
			t.Errorf("got %d creates at work at once, want %d", most, w.opts.CreatesPerHost)
		}
	})
}

func TestCreate_tooManyAreTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.setHook(slow("Ensure", time.Minute))
		busy := 0
		for i := range 32*w.opts.CreatesPerHost + 5 {
			_, err := w.Create(t.Context(), spec("vm"+string(rune('a'+i%26))+string(rune('a'+i/26))), 0)
			if e, ok := errors.AsType[*instance.Error](err); ok && e.Reason == instance.ReasonHostBusy {
				busy++
				if e.RetryAfter < time.Second {
					t.Errorf("told to come back after %v, want a while", e.RetryAfter)
				}
			}
		}
		if busy != 5 {
			t.Errorf("got %d creates turned away, want 5", busy)
		}
		closeNow(w.Service)
	})
}

// TestCreate_sequentialCalls holds the number of host calls that a create from
// a cached image waits for one after the other.
func TestCreate_sequentialCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate(t, spec("warm"))
		w.setHook(func(_ context.Context, call string) (before, after error) {
			if call != "Start" {
				<-time.After(time.Millisecond)
			}
			return nil, nil
		})
		began := time.Now()
		w.mustCreate(t, spec("vm"))
		// look-up, prepare, overlay, confirm (beside seed, upload), define, read-back;
		// the start is not counted, a listing is beside it.
		if got := time.Since(began) / time.Millisecond; got > 7 {
			t.Errorf("got %d calls one after the other, want at most 7", got)
		}
	})
}

// TestCreate_afterADeleteWaitsForTheCancelledWork: a create that comes after
// the Delete is not answered with what the Delete did to an earlier one.
func TestCreate_afterADeleteWaitsForTheCancelledWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.setHook(slow("CreateVolume", 10*time.Second))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.Create(t.Context(), spec("vm"), time.Hour)
			wantReason(t, err, instance.ReasonCreateCancelled, "alpha", "vm")
		})
		synctest.Wait()
		wg.Go(func() {
			if err := w.Delete(t.Context(), vmID, ""); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if got := w.mustCreate(t, spec("vm")); !got.Made {
			t.Error("the create did not make it itself")
		}
		wg.Wait()
		wantOneVM(t, w.host().room, "vm")
	})
}

// TestCreate_waitersLinkToTheWork: the work's calls are under the span of the
// request that started it, and who joins gets a link (S3).
func TestCreate_waitersLinkToTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
		w := newWorld(t)
		var mu sync.Mutex
		seen := map[trace.SpanID]bool{}
		w.setHook(func(ctx context.Context, _ string) (before, after error) {
			mu.Lock()
			seen[trace.SpanContextFromContext(ctx).SpanID()] = true
			mu.Unlock()
			<-time.After(time.Second)
			return nil, nil
		})
		first, firstSpan := tracer.Start(t.Context(), "first")
		second, secondSpan := tracer.Start(t.Context(), "second")
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.Create(first, spec("vm"), time.Hour); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if _, err := w.Create(second, spec("vm"), time.Hour); err != nil {
			t.Error(err)
		}
		wg.Wait()
		secondSpan.End()
		firstSpan.End()
		if want := (map[trace.SpanID]bool{firstSpan.SpanContext().SpanID(): true}); !maps.Equal(seen, want) {
			t.Errorf("got calls under spans %v, want the first request's alone", seen)
		}
		for _, s := range recorder.Ended() {
			if want := map[string]int{"first": 0, "second": 1}[s.Name()]; len(s.Links()) != want {
				t.Errorf("span %s has %d links, want %d", s.Name(), len(s.Links()), want)
			}
		}
	})
}
