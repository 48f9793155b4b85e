package libvirtx

import (
	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// mapState turns libvirt's state and reason numbers into the contract's power
// (G3) and words that say why. Numbers unknown to this build are PowerOff.
func mapState(state, reason int32) (instance.Power, string) {
	s, ok := domainStates[libvirt.DomainState(state)]
	if !ok {
		return instance.PowerOff, "unknown state"
	}
	if why, ok := s.reasons[reason]; ok {
		return s.power, s.word + ": " + why
	}
	return s.power, s.word
}

// domainState is what one of libvirt's states means here. Reasons that say no
// more than the state itself are left out.
type domainState struct {
	power   instance.Power
	word    string
	reasons map[int32]string
}

var domainStates = map[libvirt.DomainState]domainState{
	libvirt.DomainNostate: {power: instance.PowerUnknown, word: "no state"},
	libvirt.DomainRunning: {power: instance.PowerOn, word: "running", reasons: map[int32]string{
		int32(libvirt.DomainRunningBooted):            "booted",
		int32(libvirt.DomainRunningMigrated):          "migrated",
		int32(libvirt.DomainRunningRestored):          "restored",
		int32(libvirt.DomainRunningFromSnapshot):      "from snapshot",
		int32(libvirt.DomainRunningUnpaused):          "unpaused",
		int32(libvirt.DomainRunningMigrationCanceled): "migration canceled",
		int32(libvirt.DomainRunningSaveCanceled):      "save canceled",
		int32(libvirt.DomainRunningWakeup):            "woken up",
		int32(libvirt.DomainRunningCrashed):           "crashed",
		int32(libvirt.DomainRunningPostcopy):          "post-copy migration",
		int32(libvirt.DomainRunningPostcopyFailed):    "post-copy migration failed",
	}},
	libvirt.DomainBlocked: {power: instance.PowerOn, word: "blocked"},
	libvirt.DomainPaused: {power: instance.PowerPaused, word: "paused", reasons: map[int32]string{
		int32(libvirt.DomainPausedUser):           "by a user",
		int32(libvirt.DomainPausedMigration):      "migration",
		int32(libvirt.DomainPausedSave):           "being saved",
		int32(libvirt.DomainPausedDump):           "being dumped",
		int32(libvirt.DomainPausedIoerror):        "I/O error",
		int32(libvirt.DomainPausedWatchdog):       "watchdog",
		int32(libvirt.DomainPausedFromSnapshot):   "from snapshot",
		int32(libvirt.DomainPausedShuttingDown):   "shutting down",
		int32(libvirt.DomainPausedSnapshot):       "snapshot being taken",
		int32(libvirt.DomainPausedCrashed):        "guest crashed",
		int32(libvirt.DomainPausedStartingUp):     "starting up",
		int32(libvirt.DomainPausedPostcopy):       "post-copy migration",
		int32(libvirt.DomainPausedPostcopyFailed): "post-copy migration failed",
		int32(libvirt.DomainPausedAPIError):       "API error",
	}},
	libvirt.DomainShutdown: {power: instance.PowerOff, word: "shutting down"},
	libvirt.DomainShutoff: {power: instance.PowerOff, word: "shut off", reasons: map[int32]string{
		int32(libvirt.DomainShutoffShutdown):     "guest shut down",
		int32(libvirt.DomainShutoffDestroyed):    "destroyed",
		int32(libvirt.DomainShutoffCrashed):      "crashed",
		int32(libvirt.DomainShutoffMigrated):     "migrated",
		int32(libvirt.DomainShutoffSaved):        "saved",
		int32(libvirt.DomainShutoffFailed):       "start failed",
		int32(libvirt.DomainShutoffFromSnapshot): "from snapshot",
		int32(libvirt.DomainShutoffDaemon):       "stopped by libvirt",
	}},
	libvirt.DomainCrashed: {power: instance.PowerOff, word: "crashed", reasons: map[int32]string{
		int32(libvirt.DomainCrashedPanicked): "guest panicked",
	}},
	libvirt.DomainPmsuspended: {power: instance.PowerOff, word: "suspended by the guest"},
}

// The states of a storage pool, by libvirt's number.
var poolStates = []string{"inactive", "building", "running", "degraded", "inaccessible"}

// poolRunning and poolDegraded are the states in which a pool can be used.
const (
	poolRunning  = 2
	poolDegraded = 3
)

func poolUsable(state uint8) bool { return state == poolRunning || state == poolDegraded }

func poolStateWord(state uint8) string {
	if int(state) < len(poolStates) {
		return poolStates[state]
	}
	return "unknown"
}
