package instance_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestNew_namesEveryMissingOption(t *testing.T) {
	_, err := instance.New(instance.Options{Owner: "Not.A.Label"})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"Hosts", "Images", "Owner", "CreateWait", "CreatesPerHost", "Log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
}

func TestNew_doesNoIO(t *testing.T) {
	w := newWorld(t)
	if got := w.host().calls.Load(); got != 0 {
		t.Errorf("got %d host calls from New, want 0", got)
	}
}

func TestPlacements_byName(t *testing.T) {
	w := newWorld(t, newRoom(), newRoom())
	want := []instance.Placement{
		{Name: "alpha", Host: "alpha", Image: "debian", Size: "small"},
		{Name: "beta", Host: "beta", Image: "debian", Size: "small"},
	}
	if diff := cmp.Diff(want, w.Placements()); diff != "" {
		t.Errorf("Placements() (-want +got)\n%s", diff)
	}
	w.SetCatalog(instance.Catalog{})
	if got := w.Placements(); len(got) != 0 {
		t.Errorf("got %v after the catalog was emptied", got)
	}
}

// TestClose_waitsForDetachedWork: work whose callers left ends by itself when
// there is time, and is cancelled when there is none.
func TestClose_waitsForDetachedWork(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limit   time.Duration
		wantErr error
		wantVM  bool
	}{
		{"in time", time.Minute, nil, true},
		{"cut short", time.Second, context.DeadlineExceeded, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.setHook(slow("Ensure", 10*time.Second))
				_, err := w.Create(t.Context(), spec("vm"), 0)
				wantReason(t, err, instance.ReasonCreateInProgress, "alpha", "vm")

				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				if err := w.Close(ctx); !errors.Is(err, tt.wantErr) {
					t.Errorf("Close = %v, want %v", err, tt.wantErr)
				}
				if domains, _ := w.host().snapshot(t); (len(domains) == 1) != tt.wantVM {
					t.Errorf("got %d domains after Close, want a VM: %v", len(domains), tt.wantVM)
				}
				_, err = w.Create(t.Context(), spec("vm"), patience)
				wantReason(t, err, instance.ReasonShuttingDown, "alpha", "vm")
			})
		})
	}
}

// slow makes one call take its time, or end with its ctx.
func slow(call string, d time.Duration) hook {
	return func(ctx context.Context, c string) (before, after error) {
		if c == call {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
		return nil, nil
	}
}

// TestProvider_cancelledContextReturnsPromptly: every method comes back as soon
// as its caller leaves, whatever call it is in, and leaves no goroutine once closed.
func TestProvider_cancelledContextReturnsPromptly(t *testing.T) {
	methods := map[string]func(ctx context.Context, w *world) error{
		"Create": func(ctx context.Context, w *world) error {
			_, err := w.Create(ctx, spec("new"), time.Hour)
			return err
		},
		"DryRun": func(ctx context.Context, w *world) error {
			_, err := w.DryRun(ctx, spec("new"))
			return err
		},
		"Get": func(ctx context.Context, w *world) error {
			_, err := w.Get(ctx, "hosts/alpha/domains/vm")
			return err
		},
		"Delete": func(ctx context.Context, w *world) error { return w.Delete(ctx, "hosts/alpha/domains/vm", "") },
		"List": func(ctx context.Context, w *world) error {
			_, err := w.List(ctx, instance.Filter{})
			return err
		},
		"Console": func(ctx context.Context, w *world) error {
			_, err := w.Console(ctx, "hosts/alpha/domains/vm", 0)
			return err
		},
		"Images": func(ctx context.Context, w *world) error {
			_, err := w.Images(ctx, "")
			return err
		},
		"PullImage":   func(ctx context.Context, w *world) error { return w.PullImage(ctx, "debian", "") },
		"RemoveImage": func(ctx context.Context, w *world) error { return w.RemoveImage(ctx, "debian", "", "") },
	}
	for name, call := range methods {
		for how, leave := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			},
			"expired": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			"gone before": func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return ctx, cancel
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.mustCreate(t, spec("vm"))
					w.setHook(func(ctx context.Context, _ string) (before, after error) {
						<-ctx.Done()
						return nil, nil
					})
					ctx, cancel := leave(t.Context())
					defer cancel()
					began := time.Now()
					err := call(ctx, w)
					if took := time.Since(began); took > time.Second {
						t.Errorf("%s came back after %s", name, took)
					}
					if got := instance.ReasonOf(err).Kind(); err == nil || got != instance.Transient {
						t.Errorf("got %v of kind %s, want Transient", err, got)
					}
					closeNow(w.Service)
				})
			})
		}
	}
}

// TestProvider_everyErrorIsWrappedWithConfiguredName: whatever call fails, the
// error names host, instance and what was being done, in one layer.
func TestProvider_everyErrorIsWrappedWithConfiguredName(t *testing.T) {
	methods := map[string]func(w *world) error{
		"Create": func(w *world) error {
			_, err := w.Create(t.Context(), spec("vm"), patience)
			return err
		},
		"Get": func(w *world) error {
			_, err := w.Get(t.Context(), "hosts/alpha/domains/vm")
			return err
		},
		"Delete": func(w *world) error { return w.Delete(t.Context(), "hosts/alpha/domains/vm", "") },
		"DryRun": func(w *world) error {
			_, err := w.DryRun(t.Context(), spec("vm"))
			return err
		},
	}
	for name, call := range methods {
		t.Run(name, func(t *testing.T) {
			walked := 0
			for n := int64(1); ; n++ {
				w := newWorld(t)
				if name == "Get" || name == "Delete" {
					w.mustCreate(t, spec("vm"))
				}
				h, calls := dieAt(n, false)
				w.setHook(h)
				err := call(w)
				if calls.Load() < n {
					break
				}
				if err == nil {
					continue
				}
				walked++
				var e *instance.Error
				if !errors.As(err, &e) {
					t.Fatalf("n=%d: got %T, want *instance.Error", n, err)
				}
				if e.Host != "alpha" || e.Instance != "vm" || e.Op == "" {
					t.Errorf("n=%d: %v names host %q, instance %q, op %q", n, err, e.Host, e.Instance, e.Op)
				}
				if _, again := errors.AsType[*instance.Error](e.Err); again {
					t.Errorf("n=%d: %v is wrapped twice", n, err)
				}
			}
			if walked == 0 {
				t.Error("no call failed")
			}
		})
	}
}

// TestLogging_v0SilentV1OutcomeV2Detail: nothing at Info for a request that
// somebody waits for, its outcome at Debug, what was retried below.
func TestLogging_v0SilentV1OutcomeV2Detail(t *testing.T) {
	w := newWorld(t)
	w.images.confirmFails.Store(1)
	w.mustCreate(t, spec("vm"))
	if _, err := w.Get(t.Context(), "hosts/alpha/domains/vm"); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), "hosts/alpha/domains/vm", ""); err != nil {
		t.Fatal(err)
	}
	closeNow(w.Service)
	if got := w.log.lines("INFO") + w.log.lines("WARN") + w.log.lines("ERROR"); got != 0 {
		t.Errorf("got %d lines at Info or above, want none:\n%s", got, w.log)
	}
	if got := w.log.lines("DEBUG"); got != 1 {
		t.Errorf("got %d lines at Debug, want the create's outcome:\n%s", got, w.log)
	}
	if got := w.log.lines("DEBUG-4"); got != 1 {
		t.Errorf("got %d lines of detail, want the create's second round:\n%s", got, w.log)
	}
}

// TestLogging_outcomeNobodyWaitsFor: a create that ends after its callers left
// is background work, and tells how it ended.
func TestLogging_outcomeNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.setHook(slow("Ensure", 10*time.Second))
		if _, err := w.Create(t.Context(), spec("vm"), time.Second); err == nil {
			t.Fatal("got no error from an impatient create")
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.log.lines("INFO"); got != 1 {
			t.Errorf("got %d lines at Info, want 1:\n%s", got, w.log)
		}
	})
}

func TestCreate_panicIsInternalAndSparesTheProcess(t *testing.T) {
	w := newWorld(t)
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "CreateVolume" {
			panic(testUserData)
		}
		return nil, nil
	})
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonInternal, "alpha", "vm")
	if strings.Contains(err.Error()+w.log.String(), "sentinel") {
		t.Errorf("the panic's value is shown: %v\n%s", err, w.log)
	}
	if got := w.log.lines("ERROR"); got != 1 {
		t.Errorf("got %d lines at Error, want the stack once", got)
	}
	w.setHook(nil)
	w.mustCreate(t, spec("vm"))
	wantOneVM(t, w.host().room, "vm")
}
