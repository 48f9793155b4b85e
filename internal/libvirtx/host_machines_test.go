package libvirtx_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func TestDefine_secondUUIDForANameIsAlreadyDefined(t *testing.T) {
	h, _ := newHost(t, sim.Options{})
	first := definition(t, h, "proxy-1")
	if err := h.Define(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := h.Define(t.Context(), first); err != nil {
		t.Errorf("repeated: %v", err)
	}
	second := first
	second.UUID, second.Mark.UID = uuid.NewString(), "other"
	err := h.Define(t.Context(), second)
	if !errors.Is(err, instance.ErrAlreadyDefined) {
		t.Errorf("got %v, want ErrAlreadyDefined", err)
	}
	if m := find(t, h, "proxy-1"); m.UUID != first.UUID || m.Mark.UID != first.Mark.UID {
		t.Errorf("got %+v, want the first one untouched", m)
	}
}

func TestDefine_failures(t *testing.T) {
	for _, tc := range []struct {
		method string
		err    error
		want   instance.Reason
	}{
		{"DomainDefineXML", code(libvirt.ErrXMLError), instance.ReasonRefusedByLibvirt},
		{"DomainDefineXML", code(libvirt.ErrConfigUnsupported), instance.ReasonRefusedByLibvirt},
		{"DomainDefineXML", code(libvirt.ErrSystemError), instance.ReasonLibvirtError},
		{"DomainSetAutostart", code(libvirt.ErrSystemError), instance.ReasonLibvirtError},
		{"ConnectGetCapabilities", code(libvirt.ErrSystemError), instance.ReasonLibvirtError},
		{"ConnectGetDomainCapabilities", code(libvirt.ErrInvalidArg), instance.ReasonMisconfigured},
	} {
		t.Run(tc.method, func(t *testing.T) {
			h, s := newHost(t, sim.Options{})
			d := definition(t, h, "proxy-1")
			s.FailMethod(tc.method, tc.err, 1)
			err := h.Define(t.Context(), d)
			wantReason(t, err, tc.want)
			if !strings.Contains(err.Error(), "proxy-1") {
				t.Errorf("got %q, want the instance named", err)
			}
		})
	}
}

func TestDefine_domainTypeFromCapabilitiesUnlessOverridden(t *testing.T) {
	for _, tc := range []struct {
		name       string
		noKVM      bool
		configured string
		want       string
	}{
		{"kvm where offered", false, "auto", `type="kvm"`},
		{"emulation otherwise", true, "auto", `type="qemu"`},
		{"as configured", false, "qemu", `type="qemu"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, s := newHost(t, sim.Options{NoKVM: tc.noKVM}, func(o *libvirtx.HostOptions) { o.DomainType = tc.configured })
			define(t, h, "proxy-1")
			if doc := domainDoc(t, s, "proxy-1"); !strings.Contains(strings.ReplaceAll(doc[:60], "'", `"`), tc.want) {
				t.Errorf("got %.60s, want %s", doc, tc.want)
			}
		})
	}
}

// domainDoc reads a domain's XML behind the host's back.
func domainDoc(t *testing.T, s *sim.Host, name string) string {
	t.Helper()
	conn, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	dom, err := conn.DomainLookupByName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := conn.DomainGetXMLDesc(t.Context(), dom, 0)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestStart(t *testing.T) {
	for _, tc := range []struct {
		name      string
		fail      error
		fresh     bool
		want      instance.Reason // "" is success
		wantCalls int
	}{
		{"starts", nil, true, "", 1},
		{"not fresh", nil, false, "", 1},
		{"flag unknown (8)", code(libvirt.ErrInvalidArg), true, "", 2},
		{"flag unknown (3)", code(libvirt.ErrNoSupport), true, "", 2},
		{"procedure unknown", libvirt.ErrUnsupported, true, "", 2},
		{"refused without a flag", code(libvirt.ErrInvalidArg), false, instance.ReasonRefusedByLibvirt, 1},
		{"gone", code(libvirt.ErrNoDomain), true, instance.ReasonVanished, 1},
		{"disk or bridge absent", code(libvirt.ErrSystemError), true, instance.ReasonStartFailed, 1},
		{"disk locked", code(libvirt.ErrInternalError), true, instance.ReasonStartFailed, 1},
		{"impossible, and off", code(libvirt.ErrOperationInvalid), true, instance.ReasonStartFailed, 1},
		{"no emulator", code(libvirt.ErrConfigUnsupported), true, instance.ReasonRefusedByLibvirt, 1},
		{"connection lost", libvirt.ErrInterrupted, true, instance.ReasonUnreachable, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, s := newHost(t, sim.Options{})
			m := define(t, h, "proxy-1")
			if tc.fail != nil {
				s.FailMethod("DomainCreate", tc.fail, 1)
			}
			err := h.Start(t.Context(), m, tc.fresh)
			if tc.want != "" {
				wantReason(t, err, tc.want)
			} else if err != nil {
				t.Errorf("got %v, want success", err)
			}
			if got := s.Calls("DomainCreate"); got != tc.wantCalls {
				t.Errorf("got %d calls, want %d", got, tc.wantCalls)
			}
		})
	}
}

func TestStart_runningAlreadyIsSuccess(t *testing.T) {
	h, _ := newHost(t, sim.Options{})
	m := boot(t, h, "proxy-1")
	if err := h.Start(t.Context(), m, true); err != nil {
		t.Error(err)
	}
}

func TestStop(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	m := boot(t, h, "proxy-1")
	s.FailMethod("DomainDestroy", code(libvirt.ErrOperationInvalid), 1)
	wantReason(t, h.Stop(t.Context(), m), instance.ReasonLibvirtError)
	s.FailMethod("DomainDestroy", code(libvirt.ErrOperationInvalid), 1)
	s.FailMethod("DomainGetState", code(libvirt.ErrNoDomain), 1)
	if err := h.Stop(t.Context(), m); err != nil {
		t.Errorf("gone meanwhile: %v", err)
	}
	for _, what := range []string{"running", "off"} {
		if err := h.Stop(t.Context(), m); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := find(t, h, "proxy-1").Power; got != instance.PowerOff {
		t.Errorf("got %v, want off", got)
	}
	if err := h.Undefine(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := h.Stop(t.Context(), m); err != nil {
		t.Errorf("gone: %v", err)
	}
}

func TestUndefine(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	for _, tc := range []struct {
		name      string
		fail      error
		times     int
		wantCalls int
	}{
		{"all flags", nil, 0, 1},
		{"flags unknown", code(libvirt.ErrInvalidArg), 2, 3},
	} {
		m := define(t, h, "proxy-1")
		s.ResetCalls()
		if tc.times > 0 {
			s.FailMethod("DomainUndefine", tc.fail, tc.times)
		}
		if err := h.Undefine(t.Context(), m); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if got := s.Calls("DomainUndefine"); got != tc.wantCalls {
			t.Errorf("%s: got %d calls, want %d", tc.name, got, tc.wantCalls)
		}
		if err := h.Undefine(t.Context(), m); err != nil {
			t.Errorf("%s, gone: %v", tc.name, err)
		}
	}
	m := define(t, h, "proxy-1")
	s.FailMethod("DomainUndefine", code(libvirt.ErrOperationInvalid), 1)
	wantReason(t, h.Undefine(t.Context(), m), instance.ReasonLibvirtError)
}

func TestUndefine_takesNVRAMAlong(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	m := boot(t, h, "proxy-1")
	if err := errors.Join(h.Stop(t.Context(), m), h.Undefine(t.Context(), m)); err != nil {
		t.Fatal(err)
	}
	if left, ok := s.NVRAM("proxy-1"); ok {
		t.Errorf("got %v left, want none", left)
	}
}

func TestSetMark(t *testing.T) {
	h, _ := newHost(t, sim.Options{})
	for _, tc := range []struct {
		name string
		make func() instance.Machine
	}{
		{"off", func() instance.Machine { return define(t, h, "off") }},
		{"running", func() instance.Machine { return boot(t, h, "running") }},
		{"stopped since it was read", func() instance.Machine {
			m := boot(t, h, "stale")
			if err := h.Stop(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			return m
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := tc.make()
			mark := *m.Mark
			mark.Deleting, mark.UID = true, `"<&`
			if err := h.SetMark(t.Context(), m, mark); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&mark, find(t, h, m.Name).Mark); diff != "" {
				t.Errorf("mark (-want +got):\n%s", diff)
			}
			if err := h.Stop(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&mark, find(t, h, m.Name).Mark); diff != "" {
				t.Errorf("stored mark (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetMark_transientDomain(t *testing.T) {
	h, _ := newHost(t, sim.Options{})
	m := boot(t, h, "proxy-1")
	if err := h.Undefine(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	mark := *m.Mark
	mark.Deleting = true
	for name, m := range map[string]instance.Machine{"as read before": m, "as it is": find(t, h, "proxy-1")} {
		if err := h.SetMark(t.Context(), m, mark); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := h.Undefine(t.Context(), m); err != nil {
		t.Errorf("nothing left to undefine: %v", err)
	}
	if !find(t, h, "proxy-1").Mark.Deleting {
		t.Error("the live mark was not set")
	}
	if err := h.Stop(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	wantReason(t, h.SetMark(t.Context(), m, mark), instance.ReasonInstanceNotFound)
	wantReason(t, h.SetAutostart(t.Context(), m, true), instance.ReasonInstanceNotFound)
}

// A namesake that was defined since is another domain: nothing reaches it.
func TestMachines_goByUUID(t *testing.T) {
	h, _ := newHost(t, sim.Options{})
	old := boot(t, h, "proxy-1")
	if err := errors.Join(h.Stop(t.Context(), old), h.Undefine(t.Context(), old)); err != nil {
		t.Fatal(err)
	}
	young := boot(t, h, "proxy-1")
	if err := errors.Join(h.Stop(t.Context(), old), h.Undefine(t.Context(), old)); err != nil {
		t.Fatal(err)
	}
	wantReason(t, h.SetMark(t.Context(), old, *old.Mark), instance.ReasonInstanceNotFound)
	wantReason(t, h.Start(t.Context(), old, false), instance.ReasonVanished)
	if m := find(t, h, "proxy-1"); m.UUID != young.UUID || m.Power != instance.PowerOn {
		t.Errorf("got %+v, want the namesake untouched", m)
	}
}

func TestMachines_returnPromptlyWhenCancelled(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	m := boot(t, h, "proxy-1")
	d := definition(t, h, "proxy-2")
	defer s.Stall("")()
	for name, call := range map[string]func(context.Context) error{
		"define":   func(ctx context.Context) error { return h.Define(ctx, d) },
		"start":    func(ctx context.Context) error { return h.Start(ctx, m, false) },
		"stop":     func(ctx context.Context) error { return h.Stop(ctx, m) },
		"mark":     func(ctx context.Context) error { return h.SetMark(ctx, m, *m.Mark) },
		"undefine": func(ctx context.Context) error { return h.Undefine(ctx, m) },
		"list":     func(ctx context.Context) error { _, err := h.List(ctx); return err },
		"volumes":  func(ctx context.Context) error { _, err := h.Volumes(ctx, ""); return err },
		"volume":   func(ctx context.Context) error { return h.DeleteVolume(ctx, "x") },
		"space":    func(ctx context.Context) error { _, err := h.CheckSpace(ctx, 1); return err },
		"preflight": func(ctx context.Context) error {
			return h.Preflight(ctx, instance.FirmwareUEFI)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			err := call(ctx)
			wantReason(t, err, instance.ReasonCancelled)
			if !errors.Is(err, instance.Transient) {
				t.Errorf("got %v, want Transient", err)
			}
		})
	}
}
