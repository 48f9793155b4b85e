//go:build lab

package imagefaults_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// faultsPerRound strike one after the other before a round's image comes through.
	faultsPerRound = 3

	roundLimit  = 3 * time.Minute
	settleLimit = 2 * time.Minute
	bootLimit   = 3 * time.Minute
)

// Deeds are the faults that are none of the mirror's.
var (
	killKVM2D = deed("kvm2d killed")
	stopKVM2D = deed("kvm2d stopped")
	killHost  = deed("libvirtd killed")
)

// What a round may begin with and look like, counted like faults.
const (
	openRemove = "image removed through the API"
	openBase   = "base deleted behind kvm2d's back"
	openMarker = "marker deleted behind kvm2d's back"
	withTwin   = "two daemons on the pools"
	withCreate = "image awaited by a create"
)

// expected are the reasons with which a request may be answered while faults last.
var expected = []string{
	"", "DownloadFailed", "ImageUnavailable", "ImageInvalid", "ChecksumMismatch", // the mirror
	"Unreachable", "LibvirtUnavailable", "LibvirtError", "Timeout", "HostBusy", // libvirtd
	"ShuttingDown", "Cancelled", "CreateInProgress", "DomainPaused", // kvm2d, also in mid-start
	"Vanished", "ImageInUse", // what was deleted or is still awaited
}

// trial is the whole run: two hosts, up to two daemons, a few images.
type trial struct {
	*rig
	hosts   []string
	daemons []*daemon // the second is a guest
	images  []string
	hashes  map[string]string // of what lies in the pool

	dice     *rand.Rand
	faults   deck[fault]
	openings deck[string]
	twins    deck[bool]
	creates  deck[bool]

	deeds sync.WaitGroup
}

func TestFaults(t *testing.T) {
	rounds, seed := number(t, "N", 20), number(t, "SEED", 1)
	tr := newTrial(t, uint64(seed))
	tr.pullAll(t)
	begun := time.Now()
	for n := range rounds {
		tr.round(t, n)
		if t.Failed() {
			t.Fatalf("stopped after round %d of seed %d", n, seed)
		}
	}
	t.Logf("%d rounds of seed %d in %v", rounds, seed, time.Since(begun).Round(time.Second))
	tr.settle(t)
	tr.boot(t)
	names := slices.Concat(tr.openings.all, []string{withTwin, withCreate})
	for _, f := range tr.faults.all {
		names = append(names, f.name)
	}
	tr.mirror.tally.report(t, names)
}

func newTrial(t *testing.T, seed uint64) *trial {
	t.Helper()
	r := newRig(t)
	tr := &trial{
		rig: r, hosts: []string{"h1", "h2"}, hashes: map[string]string{}, dice: rand.New(rand.NewPCG(seed, 0)),
		faults:   deck[fault]{all: slices.Concat(mirrorFaults, []fault{killKVM2D, stopKVM2D, killHost})},
		openings: deck[string]{all: []string{openRemove, openBase, openMarker}},
		twins:    deck[bool]{all: []bool{true, false}},
		creates:  deck[bool]{all: []bool{true, false, false, false}},
	}
	tiny, err := os.ReadFile(filepath.Join(filepath.Dir(r.state), "images", "tiny.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	plain := newQCOW2(t, randomBytes(seed, 6*mib), 64*mib)
	packed := newQCOW2(t, randomBytes(seed+1, 4*mib), 32*mib)
	var sources []source
	for name, content := range map[string][]byte{"tiny": tiny, "plain": plain, "packed": packed} {
		tr.images = append(tr.images, name)
		tr.hashes[name] = sha256Of(content)
		if name == "packed" {
			content = gzipped(t, content)
		}
		sources = append(sources, source{name: name, url: r.mirror.addBytes(name, content), sha256: sha256Of(content)})
	}
	slices.Sort(tr.images)
	for _, host := range tr.hosts {
		empty(t, host)
	}
	config := r.config(
		fmt.Sprintf("{stall: %v, transfer: %v}", stallLimit, transferLimit),
		[]place{{"h1", "h1", "default"}, {"h2", "h2", "default"}}, sources)
	binary := build(t, "-race")
	tr.daemons = []*daemon{r.newDaemon(t, binary, "first", config), r.newDaemon(t, binary, "second", config)}
	if err := tr.daemons[0].start(); err != nil {
		t.Fatal(err)
	}
	return tr
}

// deck deals every card, in random order, before it deals one again.
type deck[T any] struct {
	all  []T
	left []T
}

func (d *deck[T]) deal(dice *rand.Rand) T {
	if len(d.left) == 0 {
		d.left = slices.Clone(d.all)
		dice.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	card := d.left[0]
	d.left = d.left[1:]
	return card
}

// round makes an image absent, plans faults, and wants it back on its hosts.
// What it draws depends on the seed only.
func (tr *trial) round(t *testing.T, n int) {
	t.Helper()
	image := tr.images[tr.dice.IntN(len(tr.images))]
	hosts := [][]string{{"h1"}, {"h2"}, {"h1", "h2"}}[tr.dice.IntN(3)]
	opening, twin, create := tr.openings.deal(tr.dice), tr.twins.deal(tr.dice), tr.creates.deal(tr.dice)
	faults := make([]planned, faultsPerRound)
	names := make([]string, faultsPerRound)
	for i := range faults {
		faults[i] = tr.planned(t, tr.faults.deal(tr.dice), tr.dice)
		names[i] = faults[i].name
	}
	t.Logf("round %d: %s on %q, %s, two daemons %v, create %v, then %q", n, image, hosts, opening, twin, create, names)

	daemons := tr.awake(t, twin)
	for _, host := range hosts {
		tr.open(t, opening, image, host)
	}
	tr.mirror.plan(faults...)
	var wants sync.WaitGroup
	for _, host := range hosts {
		for i, d := range daemons {
			wants.Go(func() {
				if create && i == 0 {
					tr.createOn(t, d, image, host)
				}
				tr.pullTo(t, d, image, host)
			})
		}
	}
	begun := time.Now()
	wants.Wait()
	tr.deeds.Wait()
	t.Logf("round %d: whole again after %v", n, time.Since(begun).Round(100*time.Millisecond))
	for _, host := range hosts {
		checkWhole(t, tr.state, host, tr.hashes)
	}
}

// awake returns the daemons of a round, which run then; one that is none does not.
func (tr *trial) awake(t *testing.T, twin bool) []*daemon {
	t.Helper()
	if !twin {
		if err := tr.daemons[1].end(syscall.SIGTERM); err != nil {
			t.Fatalf("end the second kvm2d: %v", err)
		}
		return tr.daemons[:1]
	}
	if err := tr.daemons[1].start(); err != nil {
		t.Fatal(err)
	}
	tr.mirror.tally.add(withTwin)
	return tr.daemons
}

// planned gives a fault its moment and its victim.
func (tr *trial) planned(t *testing.T, f fault, dice *rand.Rand) planned {
	t.Helper()
	p := planned{fault: f, share: dice.Float64()}
	if dice.IntN(3) == 0 {
		p.share = 1 // when all is sent, and checks and marker follow
	}
	host, later := tr.hosts[dice.IntN(2)], time.Duration(dice.Int64N(int64(200*time.Millisecond)))
	act := map[string]func() error{
		killKVM2D.name: func() error { return tr.daemons[0].bounce(syscall.SIGKILL) },
		stopKVM2D.name: func() error { return tr.daemons[0].bounce(syscall.SIGTERM) },
		killHost.name:  func() error { return killLibvirtd(host) },
	}[f.name]
	p.act = func() {
		tr.deeds.Go(func() {
			time.Sleep(later)
			if err := act(); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
		})
	}
	return p
}

// open makes the image absent from a host, in one way or the other.
func (tr *trial) open(t *testing.T, how, image, host string) {
	t.Helper()
	poll(t, roundLimit, 200*time.Millisecond, how, func() error {
		found, err := markedBases(tr.state, host)
		if err != nil || len(found[image]) == 0 {
			return err
		}
		base := filepath.Base(found[image][0])
		switch how {
		case openRemove:
			got, callErr := tr.daemons[0].call(http.MethodDelete, "/images/"+image+"?host="+host, nil)
			if err = callErr; err == nil && got.status != http.StatusNoContent {
				err = fmt.Errorf("got %v", got)
			}
		case openBase:
			err = deleteVolume(host, base)
		case openMarker:
			parts := strings.Split(base, ".")
			err = deleteVolume(host, strings.Join(parts[:3], ".")+".marker.qcow2")
		}
		if err == nil {
			tr.mirror.tally.add(how)
		}
		return err
	})
}

// pullTo has a daemon fetch the image to a host until it says that it is there.
func (tr *trial) pullTo(t *testing.T, d *daemon, image, host string) {
	t.Helper()
	poll(t, roundLimit, 100*time.Millisecond, "image "+image+" on "+host, func() error {
		got, err := d.call(http.MethodPost, "/images/"+image+"/pull?host="+host, nil)
		if err != nil {
			return err
		}
		tr.wantExpected(t, got)
		for {
			state, reason, err := d.imageState(image, host)
			switch {
			case err != nil:
				return err
			case state == "ready":
				return nil
			case state != "downloading":
				return fmt.Errorf("%q %s; the pull got %v", state, reason, got)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// createOn makes an instance that waits for the image, and deletes it.
func (tr *trial) createOn(t *testing.T, d *daemon, image, host string) {
	t.Helper()
	name := "faults-" + image
	poll(t, roundLimit, 100*time.Millisecond, "create of "+name+" on "+host, func() error {
		got, err := d.call(http.MethodPost, "/instances", object{"name": name, "uid": "u1", "placement": host + "-" + image})
		if err != nil || got.status == http.StatusCreated || got.status == http.StatusOK {
			return err
		}
		tr.wantExpected(t, got)
		return fmt.Errorf("got %v", got)
	})
	tr.mirror.tally.add(withCreate)
	poll(t, roundLimit, 100*time.Millisecond, "delete of "+name+" on "+host, func() error {
		got, err := d.call(http.MethodDelete, "/instances/hosts/"+host+"/domains/"+name, nil)
		if err != nil || got.status == http.StatusNoContent {
			return err
		}
		tr.wantExpected(t, got)
		return fmt.Errorf("got %v", got)
	})
}

// wantExpected fails the test over an answer that no fault explains.
func (tr *trial) wantExpected(t *testing.T, got answer) {
	t.Helper()
	if got.status == http.StatusInternalServerError || !slices.Contains(expected, got.reason()) {
		t.Errorf("no fault explains %v", got)
	}
}

// settle ends the faults and wants one whole base of each image on each host,
// and nothing else.
func (tr *trial) settle(t *testing.T) {
	t.Helper()
	tr.pullAll(t)
	for _, host := range tr.hosts {
		poll(t, settleLimit, time.Second, "a clean pool", func() error { return checkClean(tr.state, host, tr.hashes) })
		checkWhole(t, tr.state, host, tr.hashes)
		names, err := volumes(host, "default")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("the pool of %s has %q", host, names)
	}
}

// pullAll has every image on every host.
func (tr *trial) pullAll(t *testing.T) {
	t.Helper()
	for _, host := range tr.hosts {
		for _, image := range tr.images {
			tr.pullTo(t, tr.daemons[0], image, host)
		}
	}
}

// boot starts a real guest from what all that has left.
func (tr *trial) boot(t *testing.T) {
	t.Helper()
	for _, host := range tr.hosts {
		d, id, begun := tr.daemons[0], "hosts/"+host+"/domains/boot", time.Now()
		got, err := d.call(http.MethodPost, "/instances", object{"name": "boot", "uid": "u1", "placement": host + "-tiny"})
		if err != nil || got.status != http.StatusCreated {
			t.Fatalf("create on %s: got %v, %v", host, got, err)
		}
		poll(t, bootLimit, time.Second, "the guest on "+host, func() error {
			got, err := d.call(http.MethodGet, "/instances/"+id, nil)
			var guest struct{ State, IP string }
			if err := cmp.Or(err, json.Unmarshal(got.body, &guest)); err != nil || guest.State != "Running" || guest.IP == "" {
				return fmt.Errorf("got %v, %w", got, err)
			}
			return nil
		})
		t.Logf("a guest booted from the image on %s in %v", host, time.Since(begun).Round(time.Second))
		if got, err := d.call(http.MethodDelete, "/instances/"+id, nil); err != nil || got.status != http.StatusNoContent {
			t.Errorf("delete on %s: got %v, %v", host, got, err)
		}
	}
}
