package sim_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

var errPlanned = errors.New("planned")

// TestGate_everyMethodPasses calls every method of the seam with zero values
// and finds it in the counts.
func TestGate_everyMethodPasses(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.host.ResetCalls()
	seam := reflect.TypeFor[libvirtx.Backend]()
	v := reflect.ValueOf(r.conn)
	for m := range seam.Methods() {
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for i := 1; i < m.Type.NumIn(); i++ {
			args = append(args, reflect.Zero(m.Type.In(i)))
		}
		v.MethodByName(m.Name).Call(args)
		if got := r.host.Calls(m.Name); got != 1 {
			t.Errorf("%s was counted %d times", m.Name, got)
		}
	}
	if got, want := r.host.Calls(""), seam.NumMethod(); got != want || len(r.host.CallCounts()) != want {
		t.Errorf("counted %d calls of %d methods, want %d", got, len(r.host.CallCounts()), want)
	}
}

func TestFaults_failCall(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.host.FailCall(2, errPlanned)
	version := func() error { _, err := r.conn.ConnectGetLibVersion(t.Context()); return err }
	for i, want := range []error{nil, errPlanned, nil} {
		if got := version(); !errors.Is(got, want) {
			t.Errorf("call %d: got %v, want %v", i+1, got, want)
		}
	}
}

func TestFaults_failMethodTakesNoEffect(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.host.FailMethod("DomainDefineXML", errPlanned, 2)
	for i, want := range []error{errPlanned, errPlanned, nil} {
		if _, err := r.conn.ConnectGetHostname(t.Context()); err != nil {
			t.Errorf("another method: %v", err)
		}
		_, err := r.conn.DomainDefineXML(t.Context(), domainXML("a", uuidA, "", poolDir+"a", ""), 0)
		if !errors.Is(err, want) {
			t.Errorf("define %d: got %v, want %v", i+1, err, want)
		}
		if _, there := r.host.Domain("a"); there != (want == nil) {
			t.Errorf("define %d: defined %t", i+1, there)
		}
	}
}

func TestFaults_lostReplyTakesEffect(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.host.LoseReply(1)
	_, err := r.conn.DomainDefineXML(t.Context(), domainXML("a", uuidA, "", poolDir+"a", ""), 0)
	if !errors.Is(err, libvirt.ErrInterrupted) {
		t.Errorf("got %v, want interrupted", err)
	}
	if _, there := r.host.Domain("a"); !there {
		t.Error("the call took no effect")
	}
	<-r.conn.Done()
}

func TestFaults_ofOneObjectUntilRemoved(t *testing.T) {
	r := newRig(t, sim.Options{})
	remove := r.host.Inject(sim.Fault{Object: "b", Err: errPlanned, Times: -1})
	for _, row := range []struct {
		name string
		want error
	}{{"b", errPlanned}, {"b", errPlanned}, {"a", nil}} {
		_, err := r.conn.DomainLookupByName(t.Context(), row.name)
		if errors.Is(err, errPlanned) != (row.want != nil) {
			t.Errorf("lookup of %s: got %v", row.name, err)
		}
	}
	remove()
	if _, err := r.conn.DomainLookupByName(t.Context(), "b"); errors.Is(err, errPlanned) {
		t.Error("a removed fault struck")
	}
	r.host.FailCall(1, errPlanned)
	r.host.ClearFaults()
	if _, err := r.conn.ConnectGetHostname(t.Context()); err != nil {
		t.Errorf("after ClearFaults: %v", err)
	}
}

func TestFaults_uploadBreaksOff(t *testing.T) {
	r := newRig(t, sim.Options{})
	v := r.volume("a", "raw", 4<<20, "<allocation>0</allocation>")
	r.host.Inject(sim.Fault{Method: "StorageVolUpload", AfterBytes: 1 << 20, Drop: true})
	err := r.conn.StorageVolUpload(t.Context(), v, bytes.NewReader(make([]byte, 4<<20)), 0, 4<<20)
	if !errors.Is(err, libvirt.ErrInterrupted) {
		t.Errorf("got %v, want interrupted", err)
	}
	if got, _ := r.host.Volume("a"); got.Allocation != 1<<20 || got.SHA256 != "" {
		t.Errorf("what was written: got %+v, want 1 MiB without a checksum", got)
	}
	<-r.conn.Done()
}

func TestStall_ignoresContextUntilReleasedOrClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sim.Options{})
		release := r.host.Stall("DomainDefineXML")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := make(chan error)
		define := func(c libvirtx.Conn) {
			_, err := c.DomainDefineXML(ctx, domainXML("a", uuidA, "", poolDir+"a", ""), 0)
			got <- err
		}
		go define(r.conn)
		other := connect(t, r.host)
		go define(other)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_ = other.Close()
		if err := <-got; !errors.Is(err, libvirt.ErrInterrupted) {
			t.Errorf("closed while stalled: got %v, want interrupted", err)
		}
		release()
		if err := <-got; err != nil {
			t.Errorf("released: got %v", err)
		}
	})
}

func TestSlow_takesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sim.Options{Latency: 10 * time.Millisecond})
		took := func() time.Duration {
			start := time.Now()
			if _, err := r.conn.ConnectGetHostname(t.Context()); err != nil {
				t.Error(err)
			}
			return time.Since(start)
		}
		got := []time.Duration{took()}
		r.host.Slow(time.Second)
		got = append(got, took())
		r.host.SlowMethod("ConnectGetHostname", time.Minute)
		got = append(got, took())
		if diff := cmp.Diff([]time.Duration{10 * time.Millisecond, time.Second, time.Minute}, got); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.conn.ConnectGetHostname(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was never sent: got %v", err)
		}
	})
}

// A refresh is refused as long as a volume is being made.
func TestRefresh_refusedWhileVolumesAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sim.Options{})
		r.host.SlowMethod("StorageVolCreateXML", time.Second)
		done := make(chan error)
		go func() {
			_, err := r.conn.StorageVolCreateXML(t.Context(), r.pool, volumeXML("a", "raw", 1, ""), 0)
			done <- err
		}()
		synctest.Wait()
		wantCode(t, "refresh meanwhile", r.conn.StoragePoolRefresh(t.Context(), r.pool), libvirt.ErrInternalError)
		wantCode(t, "create", <-done, 0)
		wantCode(t, "refresh afterwards", r.conn.StoragePoolRefresh(t.Context(), r.pool), 0)
	})
}

func TestOnCall_interleavesAndFails(t *testing.T) {
	r := newRig(t, sim.Options{})
	d := r.running("", onBridge)
	var seen []sim.Call
	r.host.ResetCalls()
	r.host.OnCall(func(c sim.Call) error {
		seen = append(seen, c)
		if c.Method == "DomainDestroy" {
			return r.host.PowerOff("a")
		}
		if c.Method == "DomainUndefine" {
			return errPlanned
		}
		return nil
	})
	wantCode(t, "destroy of a guest that just ended", r.conn.DomainDestroy(t.Context(), d), libvirt.ErrOperationInvalid)
	if err := r.conn.DomainUndefine(t.Context(), d, 0); !errors.Is(err, errPlanned) {
		t.Errorf("undefine: got %v, want the hook's error", err)
	}
	want := []sim.Call{
		{N: 1, Method: "DomainDestroy", Object: "a", Conn: 1},
		{N: 2, Method: "DomainUndefine", Object: "a", Conn: 1},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
