//go:build integration

package integration_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// steps of a create and a delete, in order, as they are told apart by calls.
var steps = []string{
	"look-up", "check", "volumes", "upload", "define", "autostart", "start", "tidy", "read back",
	"mark", "destroy", "list", "volume delete", "undefine",
}

// changing are the steps that change the host.
var changing = []string{"volumes", "upload", "define", "autostart", "start", "mark", "destroy", "volume delete", "undefine"}

// stepOf tells what a call of libvirt's protocol is for; some are of the step
// that the daemon is in.
var stepOf = map[uint32]string{
	23: "look-up", 14: "look-up", 212: "look-up", 151: "look-up", // lookup by name, XML, state, is persistent
	93: "volumes", 208: "upload", 350: "define", 29: "autostart", 196: "start",
	264: "mark", 12: "destroy", 282: "list", 94: "volume delete", 231: "undefine",
}

// moment is when, in the life of a call, its daemon is killed.
type moment int

const (
	before moment = iota
	sentOff
	answeredOff
)

// aim says at which call a daemon is killed: the nth of a step.
type aim struct {
	step string
	nth  int
	when moment
}

// tally watches two daemons, kills them as it is told, and counts what was hit.
type tally struct {
	mu     sync.Mutex
	random *rand.Rand
	kill   [2]func()
	aims   [2]*aim
	// created is set while a daemon's last change was a define or start.
	created  [2]bool
	inFlight [2]map[rpcCall]string
	kills    map[string]int
	overlaps map[string]int
}

func newTally(seed uint64) *tally {
	return &tally{
		random: rand.New(rand.NewPCG(seed, 0)), kills: map[string]int{}, overlaps: map[string]int{},
		inFlight: [2]map[rpcCall]string{{}, {}},
	}
}

// upTo returns a random number below n.
func (t *tally) upTo(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(n)
}

// takeAim chooses where a daemon dies in this round: every other time at one of
// the steps that were hit least.
func (t *tally) takeAim(side int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	candidates := steps
	if t.random.IntN(2) == 0 {
		least := slices.MinFunc(steps, func(a, b string) int { return t.kills[a] - t.kills[b] })
		candidates = slices.DeleteFunc(slices.Clone(steps), func(s string) bool { return t.kills[s] > t.kills[least] })
	}
	t.aims[side] = &aim{
		step: candidates[t.random.IntN(len(candidates))], nth: 1 + t.random.IntN(5)/4, when: moment(t.random.IntN(3)),
	}
}

// holdFire forgets the aims that met nothing.
func (t *tally) holdFire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.aims = [2]*aim{}
}

// step names a call of a daemon. The caller holds mu.
func (t *tally) step(side int, procedure uint32) string {
	step, ok := stepOf[procedure]
	switch {
	case !ok:
		return "check"
	case t.created[side] && (step == "list" || step == "volume delete"):
		return "tidy"
	case t.created[side] && step == "look-up" && procedure != 23:
		return "read back"
	}
	switch step {
	case "define", "start":
		t.created[side] = true
	case "mark", "look-up", "volumes":
		t.created[side] = false
	}
	return step
}

// begin notes a call and reports whether its daemon is to die of it.
func (t *tally) begin(side int, c rpcCall) (step string, when moment, dies bool, pause time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	step = t.step(side, c.procedure)
	for _, other := range t.inFlight[1-side] {
		if slices.Contains(changing, other) {
			t.overlaps[step]++
			break
		}
	}
	if slices.Contains(changing, step) {
		for _, other := range t.inFlight[1-side] {
			t.overlaps[other]++
		}
	}
	t.inFlight[side][c] = step
	pause = time.Duration(t.random.IntN(12_000)) * time.Microsecond
	if a := t.aims[side]; a != nil && a.step == step {
		if a.nth--; a.nth == 0 {
			t.aims[side] = nil
			t.kills[step]++
			return step, a.when, true, pause
		}
	}
	return step, 0, false, pause
}

func (t *tally) end(side int, c rpcCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.inFlight[side], c)
}

// side is one daemon's end of a tally.
type side struct {
	*tally
	number int

	mu sync.Mutex
	// doomed are the calls of which the daemon dies later than at once.
	doomed map[rpcCall]moment
}

func (s *side) called(c rpcCall) bool {
	_, when, dies, pause := s.begin(s.number, c)
	<-time.After(pause)
	switch {
	case !dies:
		return true
	case when == before:
		s.kill[s.number]()
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doomed[c] = when
	return true
}

func (s *side) dies(c rpcCall, when moment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doomed[c] == when && when != before
}

func (s *side) sent(c rpcCall) {
	if s.dies(c, sentOff) {
		s.kill[s.number]()
	}
}

func (s *side) answered(c rpcCall) {
	s.end(s.number, c)
	if s.dies(c, answeredOff) {
		s.kill[s.number]()
	}
}

func (s *side) gone(open []rpcCall) {
	for _, c := range open {
		s.end(s.number, c)
	}
}

// report is a table of what was hit, and what was not.
func (t *tally) report() (table string, missed []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %6s %9s\n", "step", "kills", "overlaps")
	for _, step := range steps {
		fmt.Fprintf(&b, "%-14s %6d %9d\n", step, t.kills[step], t.overlaps[step])
		if t.kills[step] == 0 || t.overlaps[step] == 0 {
			missed = append(missed, step)
		}
	}
	return b.String(), missed
}
