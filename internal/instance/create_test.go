package instance_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestCreate_makesTheInstance(t *testing.T) {
	w := newWorld(t)
	got := w.mustCreate(t, spec("vm"))
	want := instance.Created{Made: true, Instance: instance.Instance{
		ID: instance.ID{Host: "alpha", Name: "vm"}, UID: "uid-1", Placement: "alpha", Image: "debian", Size: "small",
		State: instance.Provisioning, StateReason: "no answer yet from agent, lease or ARP", Tags: map[string]string{"team": "red"},
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(instance.Instance{}.IP),
		cmpopts.IgnoreFields(instance.Instance{}, "CreatedAt")); diff != "" {
		t.Errorf("Create (-want +got)\n%s", diff)
	}
	if age := time.Since(got.Instance.CreatedAt); age < 0 || age > time.Minute || got.Instance.CreatedAt.Location() != time.UTC {
		t.Errorf("got createdAt %s, want now in UTC", got.Instance.CreatedAt)
	}
	m := wantOneVM(t, w.host().room, "vm")
	if got := w.host().volumes[m.Overlay]; got.BackingPath != "/pool/"+baseVolume || got.CapacityBytes != 10<<30 {
		t.Errorf("got overlay %+v, want 10 GiB over the base", got.Volume)
	}
	if w.host().fresh[m.UUID] != 1 {
		t.Error("the first start was not with fresh NVRAM")
	}
}

func TestCreate_diskAsLargeAsImage(t *testing.T) {
	w := newWorld(t)
	s := spec("vm")
	s.Size = "asimage"
	w.mustCreate(t, s)
	m := wantOneVM(t, w.host().room, "vm")
	if got := w.host().volumes[m.Overlay].CapacityBytes; got != baseBytes {
		t.Errorf("got a disk of %d bytes, want the image's %d", got, int64(baseBytes))
	}
}

func TestCreate_repeatReturnsSameIDAndCreatesNothing(t *testing.T) {
	w := newWorld(t)
	first := w.mustCreate(t, spec("vm"))
	before, volumes := w.host().snapshot(t)

	repeat := spec("vm")
	repeat.Image, repeat.Size, repeat.Tags = "tiny", "asimage", nil
	w.host().maintenance = true
	again := w.mustCreate(t, repeat)
	if again.Made || again.Instance.ID != first.Instance.ID {
		t.Errorf("got %+v, want the first instance, not made anew", again)
	}
	if diff := cmp.Diff(first.Instance.Tags, again.Instance.Tags); diff != "" || again.Instance.Image != "debian" {
		t.Errorf("the repeat changed the instance: %+v", again.Instance)
	}
	after, volumesAfter := w.host().snapshot(t)
	if diff := cmp.Diff(before["vm"].UUID, after["vm"].UUID); diff != "" || !slices.Equal(volumes, volumesAfter) {
		t.Errorf("the repeat changed the host: %v %v", after, volumesAfter)
	}
	if got := w.images.downloads.Load(); got != 1 {
		t.Errorf("got %d downloads, want 1", got)
	}
}

func TestCreate_returnsOnlyWhenRunning(t *testing.T) {
	for _, tt := range []struct {
		name    string
		onStart func(*instance.Machine)
		want    instance.Reason
		words   string
	}{
		{"paused right away", func(m *instance.Machine) {
			m.Power, m.PowerReason = instance.PowerPaused, "paused: I/O error"
		}, instance.ReasonDomainPaused, "paused: I/O error"},
		{"off right away", func(m *instance.Machine) {
			m.Power, m.PowerReason = instance.PowerOff, "crashed"
		}, instance.ReasonStartFailed, "crashed"},
		{"undefined meanwhile", func(m *instance.Machine) { m.Persistent = false }, instance.ReasonCreateCancelled, "delete"},
		{"marked meanwhile", func(m *instance.Machine) {
			mark := *m.Mark
			mark.Deleting = true
			m.Mark = &mark
		}, instance.ReasonCreateCancelled, "delete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.host().onStart = tt.onStart
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, tt.want, "alpha", "vm")
			if !strings.Contains(err.Error(), tt.words) {
				t.Errorf("error %q does not say %q", err, tt.words)
			}
		})
	}
}

func TestCreate_waitsForAHostThatDoesNotSayYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host().onStart = func(m *instance.Machine) {
			m.Power = instance.PowerUnknown
			time.AfterFunc(time.Second, func() {
				w.host().mu.Lock()
				defer w.host().mu.Unlock()
				m.Power = instance.PowerOn
			})
		}
		w.mustCreate(t, spec("vm"))
		wantOneVM(t, w.host().room, "vm")
	})
}

func TestCreate_rejectsUnknownPlacement(t *testing.T) {
	w := newWorld(t, newRoom(), newRoom())
	for _, tt := range []struct {
		name   string
		change func(*instance.Spec)
		want   instance.Reason
		known  string
	}{
		{"placement", func(s *instance.Spec) { s.Placement = "nowhere" }, instance.ReasonUnknownPlacement, "alpha, beta"},
		{"image", func(s *instance.Spec) { s.Image = "windows" }, instance.ReasonUnknownImage, "debian, tiny"},
		{"size", func(s *instance.Spec) { s.Size = "huge" }, instance.ReasonUnknownSize, "asimage, small"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec("vm")
			tt.change(&s)
			_, err := w.Create(t.Context(), s, patience)
			wantReason(t, err, tt.want, "", "vm")
			if !errors.Is(err, instance.Permanent) || !strings.Contains(err.Error(), tt.known) {
				t.Errorf("got %v, want it Permanent and naming %s", err, tt.known)
			}
		})
	}
	if got := w.host().calls.Load(); got != 0 {
		t.Errorf("got %d host calls, want none", got)
	}
}

// markOf changes the mark of the machine in the room.
func (r *room) markOf(name string, change func(*instance.Mark)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := *r.domains[name].Mark
	change(&mark)
	r.domains[name].Mark = &mark
}

func TestCreate_adoptionWithForeignUIDIsPermanent(t *testing.T) {
	for _, tt := range []struct {
		name            string
		written, asking string
		want            instance.Reason
	}{
		{"same", "uid-1", "uid-1", ""},
		{"other", "uid-2", "uid-1", instance.ReasonUIDMismatch},
		{"asking without", "uid-2", "", instance.ReasonUIDMismatch},
		{"written without", "", "uid-1", ""},
		{"both without", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCreate(t, spec("vm"))
			w.host().markOf("vm", func(m *instance.Mark) { m.UID = tt.written })
			s := spec("vm")
			s.UID = tt.asking
			got, err := w.Create(t.Context(), s, patience)
			if tt.want != "" {
				wantReason(t, err, tt.want, "alpha", "vm")
				if !errors.Is(err, instance.Permanent) {
					t.Errorf("got kind %s, want Permanent", instance.KindOf(err))
				}
				if domains, _ := w.host().snapshot(t); domains["vm"].Mark.UID != tt.written {
					t.Errorf("got uid %q written, want %q left alone", domains["vm"].Mark.UID, tt.written)
				}
				return
			}
			if err != nil || got.Instance.UID != tt.asking {
				t.Errorf("Create = %+v, %v, want uid %q", got.Instance, err, tt.asking)
			}
		})
	}
}

func TestCreate_foreignDomainIsNameTaken(t *testing.T) {
	for name, mark := range map[string]*instance.Mark{"unmarked": nil, "another owner's": {Owner: "other", UID: "uid-1"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			foreign := &instance.Machine{Name: "vm", UUID: "11111111-0000-4000-8000-000000000000", Mark: mark, Persistent: true}
			w.host().domains["vm"] = foreign
			before := *foreign
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, instance.ReasonNameTaken, "alpha", "vm")
			wantReason(t, w.Delete(t.Context(), "hosts/alpha/domains/vm", ""), instance.ReasonNameTaken, "alpha", "vm")
			_, err = w.Get(t.Context(), "hosts/alpha/domains/vm")
			wantReason(t, err, instance.ReasonInstanceNotFound, "alpha", "vm")
			if diff := cmp.Diff(before, *foreign); diff != "" {
				t.Errorf("the foreign domain was touched (-want +got)\n%s", diff)
			}
		})
	}
}

func TestCreate_pausedIsNotResumed(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().domains["vm"].Power = instance.PowerPaused
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonDomainPaused, "alpha", "vm")
	if domains, _ := w.host().snapshot(t); domains["vm"].Power != instance.PowerPaused {
		t.Errorf("got power %v, want it left paused", domains["vm"].Power)
	}
}

// TestCreate_unfinishedDeleteIsFinishedFirst: whoever's it was, and with a new
// incarnation in its place.
func TestCreate_unfinishedDeleteIsFinishedFirst(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	old := w.host().domains["vm"].UUID
	w.host().markOf("vm", func(m *instance.Mark) { m.Deleting, m.UID = true, "uid-0" })
	got := w.mustCreate(t, spec("vm"))
	if m := wantOneVM(t, w.host().room, "vm"); m.UUID == old || !got.Made {
		t.Errorf("got UUID %s, made %v, want a new incarnation", m.UUID, got.Made)
	}
}

func TestCreate_poolOutOfSpaceIsQuotaExceeded(t *testing.T) {
	w := newWorld(t)
	needed := int64(10<<30 + seedRoom + imageBytes)
	w.host().available = needed - 1
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonPoolFull, "alpha", "vm")
	if !errors.Is(err, instance.QuotaExceeded) {
		t.Errorf("got kind %s, want QuotaExceeded", instance.KindOf(err))
	}
	wantNothing(t, w.host().room)
	w.host().available = needed
	w.mustCreate(t, spec("vm"))
}

// TestCreate_outOfSpaceMidwayLeavesNothing: running out in a transfer.
func TestCreate_outOfSpaceMidwayLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "Upload" {
			return &instance.Error{Reason: instance.ReasonPoolFull, Op: "upload volume", Host: "alpha"}, nil
		}
		return nil, nil
	})
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonPoolFull, "alpha", "vm")
	wantNothing(t, w.host().room)
}

func TestCreate_libvirtNotFoundIsTransientNotNotFound(t *testing.T) {
	for _, call := range []string{"Preflight", "Ensure", "CreateVolume", "Upload", "Confirm", "Define", "Start", "Read", "Volume"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t)
			w.setHook(func(_ context.Context, c string) (before, after error) {
				if c == call {
					return &instance.Error{Reason: instance.ReasonInstanceNotFound, Op: call, Host: "alpha"}, nil
				}
				return nil, nil
			})
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, instance.ReasonVanished, "alpha", "vm")
			if errors.Is(err, instance.NotFound) || !errors.Is(err, instance.Transient) {
				t.Errorf("got kind %s, want Transient", instance.KindOf(err))
			}
		})
	}
}

func TestCreate_startsOverWhenTheImageGoes(t *testing.T) {
	w := newWorld(t)
	w.images.confirmFails.Store(2)
	w.mustCreate(t, spec("vm"))
	wantOneVM(t, w.host().room, "vm")

	w.images.confirmFails.Store(1000)
	_, err := w.Create(t.Context(), spec("vm2"), patience)
	wantReason(t, err, instance.ReasonVanished, "alpha", "vm2")
	wantOneVM(t, w.host().room, "vm")
}

func TestCreate_cloudInitSentinelNeverLoggedOrInErrors(t *testing.T) {
	var shown strings.Builder
	for n := int64(1); ; n++ {
		w := newWorld(t)
		h, calls := failAt(n, false, instance.ReasonLibvirtError)
		w.setHook(h)
		ctx, trail := instance.WithTrail(t.Context())
		_, err := w.Create(ctx, spec("vm"), patience)
		closeNow(w.Service)
		step, warnings := trail.Read()
		shown.WriteString(w.log.String() + step + strings.Join(warnings, " "))
		if err != nil {
			shown.WriteString(err.Error())
		}
		if calls.Load() < n {
			if got := w.images.userData.Load(); got != testUserData {
				t.Fatalf("got user data %q in the seed, want it byte for byte", got)
			}
			break
		}
	}
	s := spec("Not A Label")
	s.Placement = testUserData
	_, err := newWorld(t).Create(t.Context(), s, patience)
	shown.WriteString(err.Error())
	s.Name = "vm"
	_, err = newWorld(t).Create(t.Context(), s, patience)
	shown.WriteString(err.Error())
	if strings.Contains(shown.String(), "sentinel") {
		t.Error("user data came out")
	}
}

func TestCreate_maintenanceRefusesNewOnly(t *testing.T) {
	w := newWorld(t)
	w.host().maintenance = true
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonHostInMaintenance, "alpha", "vm")
	if got := w.images.downloads.Load(); got != 0 {
		t.Errorf("got %d downloads for a refused create", got)
	}
}

func TestCreate_preflightStopsBeforeAnythingIsMade(t *testing.T) {
	w := newWorld(t)
	w.host().preflight = &instance.Error{Reason: instance.ReasonNetworkNotActive, Op: "check host", Host: "alpha"}
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonNetworkNotActive, "alpha", "vm")
	wantNothing(t, w.host().room)
}

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
			if instance.ReasonOf(err) == instance.ReasonHostBusy {
				busy++
			}
		}
		if busy != 5 {
			t.Errorf("got %d creates turned away, want 5", busy)
		}
		closeNow(w.Service)
	})
}

// TestCreate_otherDaemonDefinesFirst: libvirt decides (I5); the loser goes on
// with the winner's domain and takes its own volumes back.
func TestCreate_otherDaemonDefinesFirst(t *testing.T) {
	for _, uid := range []string{"uid-1", "uid-2"} {
		t.Run(uid, func(t *testing.T) {
			r := newRoom()
			loser, winner := newWorld(t, r), newWorld(t, r)
			first := true
			loser.setHook(func(ctx context.Context, call string) (before, after error) {
				if call == "Define" && first {
					first = false
					s := spec("vm")
					s.UID = uid
					if _, err := winner.Create(ctx, s, patience); err != nil {
						t.Error(err)
					}
				}
				return nil, nil
			})
			got, err := loser.Create(t.Context(), spec("vm"), patience)
			if uid == "uid-1" && (err != nil || got.Made) {
				t.Errorf("Create = %+v, %v, want the winner's instance", got, err)
			}
			if uid != "uid-1" {
				wantReason(t, err, instance.ReasonUIDMismatch, "alpha", "vm")
			}
			wantOneVM(t, r, "vm")
		})
	}
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

// TestCreate_maintenanceRemovesNothing: what could not be made anew is kept.
func TestCreate_maintenanceRemovesNothing(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	m := w.host().domains["vm"]
	m.Power = instance.PowerOff
	delete(w.host().volumes, m.Overlay)
	w.host().maintenance = true
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonHostInMaintenance, "alpha", "vm")
	if domains, _ := w.host().snapshot(t); len(domains) != 1 {
		t.Error("the machine was removed")
	}
}

// TestCreate_diskThatWasNotListed: a host that had not looked at its pool does
// not cost the machine.
func TestCreate_diskThatWasNotListed(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	m := w.host().domains["vm"]
	uuid, overlay := m.UUID, w.host().volumes[m.Overlay]
	delete(w.host().volumes, m.Overlay)
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "CheckSpace" {
			w.host().mu.Lock()
			w.host().volumes[m.Overlay] = overlay
			w.host().mu.Unlock()
		}
		return nil, nil
	})
	w.mustCreate(t, spec("vm"))
	if got := wantOneVM(t, w.host().room, "vm"); got.UUID != uuid {
		t.Error("the machine was made anew")
	}
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
