package libvirtx

import (
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestMapState_table(t *testing.T) {
	for _, tc := range []struct {
		state, reason int32
		want          instance.Power
		wantWords     string
	}{
		{0, 0, instance.PowerUnknown, "no state"},
		{0, 7, instance.PowerUnknown, "no state"},
		{1, 0, instance.PowerOn, "running"},
		{1, 1, instance.PowerOn, "running: booted"},
		{1, 5, instance.PowerOn, "running: unpaused"},
		{1, 99, instance.PowerOn, "running"},
		{2, 0, instance.PowerOn, "blocked"},
		{3, 0, instance.PowerPaused, "paused"},
		{3, 1, instance.PowerPaused, "paused: by a user"},
		{3, 5, instance.PowerPaused, "paused: I/O error"},
		{3, 10, instance.PowerPaused, "paused: guest crashed"},
		{3, 11, instance.PowerPaused, "paused: starting up"},
		{3, -1, instance.PowerPaused, "paused"},
		{4, 1, instance.PowerOff, "shutting down"},
		{5, 0, instance.PowerOff, "shut off"},
		{5, 1, instance.PowerOff, "shut off: guest shut down"},
		{5, 2, instance.PowerOff, "shut off: destroyed"},
		{5, 6, instance.PowerOff, "shut off: start failed"},
		{6, 0, instance.PowerOff, "crashed"},
		{6, 1, instance.PowerOff, "crashed: guest panicked"},
		{7, 0, instance.PowerOff, "suspended by the guest"},
		{8, 0, instance.PowerOff, "unknown state"},
		{-1, 0, instance.PowerOff, "unknown state"},
		{1 << 30, 1, instance.PowerOff, "unknown state"},
	} {
		got, words := mapState(tc.state, tc.reason)
		if got != tc.want || words != tc.wantWords {
			t.Errorf("mapState(%d, %d) = %v, %q, want %v, %q", tc.state, tc.reason, got, words, tc.want, tc.wantWords)
		}
	}
}

func TestPoolStateWord(t *testing.T) {
	for state, want := range map[uint8]string{0: "inactive", 2: "running", 4: "inaccessible", 9: "unknown"} {
		if got := poolStateWord(state); got != want {
			t.Errorf("poolStateWord(%d) = %q, want %q", state, got, want)
		}
	}
}
