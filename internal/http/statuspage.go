package http

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Overview is what somebody saw who looked at all hosts some time ago.
type Overview struct {
	// At is when the look began; zero when there was none yet.
	At     time.Time
	Report instance.Report
	Page   instance.Page
	Images []instance.ImageStatus
}

// statusPage shows an overview to people. It asks no host anything.
type statusPage struct {
	page     *page
	overview func() Overview
	version  string
	now      func() time.Time
}

func newStatusPage(overview func() Overview, build Build) (*statusPage, error) {
	p, err := newPage("status", nil, "script-src {script}", "style-src {style}")
	if err != nil {
		return nil, err
	}
	return &statusPage{page: p, overview: overview, version: build.Version, now: time.Now}, nil
}

// serve serves GET /.
func (s *statusPage) serve(w http.ResponseWriter, r *http.Request) {
	s.page.serve(w, r, statusViewOf(s.overview(), s.version, s.now()))
}

// mood is how something looks: a class of the style sheet.
type mood string

const (
	moodGood mood = "good"
	moodBusy mood = "busy"
	moodBad  mood = "bad"
	moodIdle mood = "idle"
)

// statusView is an overview in words. Every text in it may come from a host; the
// template escapes them all.
type statusView struct {
	Version string
	Status  string
	Mood    mood
	// Seen is how long ago the look was; empty before the first.
	Seen      string
	SeenAt    string
	Hosts     []hostView
	Images    []imageView
	Instances []instanceView
	// Unknown are hosts whose instances could not be read.
	Unknown []instance.UnreachableHost
	Skipped int
}

type hostView struct {
	Name, Reason, Message string
	Mood                  mood
	Pool                  *bar
	PoolName              string
	Facts                 []fact
}

// fact is a word and what it is for this host.
type fact struct{ Name, Value string }

type imageView struct {
	Name, Host, Identity, State, Detail string
	Mood                                mood
	Progress                            *bar
}

type instanceView struct {
	ID, Name, Host, State, Reason, Address, Age, CreatedAt, Shape string
	Mood                                                          mood
}

// bar is a part of a whole.
type bar struct {
	// Percent is 0 to 100.
	Percent int
	Text    string
	Mood    mood
}

// barOf shows part of whole; both are of the same unit.
func barOf(part, whole float64, m mood, text string) *bar {
	percent := 0.0
	if whole > 0 {
		percent = min(max(100*part/whole, 0), 100)
	}
	return &bar{Percent: int(math.Floor(percent)), Text: text, Mood: m}
}

func statusViewOf(o Overview, version string, now time.Time) statusView {
	v := statusView{Version: version, Status: "not looked yet", Mood: moodIdle, Unknown: o.Page.Unreachable, Skipped: o.Page.Skipped}
	if o.At.IsZero() {
		return v
	}
	v.Status, v.Mood = string(o.Report.Status), healthMood(o.Report.Status)
	v.Seen, v.SeenAt = age(now.Sub(o.At)), o.At.UTC().Format(time.RFC3339)
	counts := map[string]int{}
	for _, in := range o.Page.Items {
		counts[in.ID.Host]++
		v.Instances = append(v.Instances, instanceViewOf(in, now))
	}
	unknown := map[string]bool{}
	for _, u := range o.Page.Unreachable {
		unknown[u.Host] = true
	}
	for _, h := range o.Report.Hosts {
		instances := "unknown"
		if !unknown[h.Host] {
			instances = fmt.Sprint(counts[h.Host])
		}
		v.Hosts = append(v.Hosts, hostViewOf(h, instances))
	}
	for _, row := range o.Images {
		v.Images = append(v.Images, imageViewOf(row))
	}
	return v
}

func healthMood(s instance.HealthStatus) mood {
	switch s {
	case instance.HealthOK:
		return moodGood
	case instance.HealthDegraded:
		return moodBusy
	default:
		return moodBad
	}
}

func hostViewOf(h instance.HostHealth, instances string) hostView {
	v := hostView{Name: h.Host, Reason: string(h.Reason), Mood: moodBad, PoolName: h.Details.Pool}
	switch {
	case h.Ready:
		v.Mood = moodGood
	case h.Reason == instance.ReasonMaintenance:
		v.Mood = moodBusy
	}
	if !h.Ready {
		v.Message = printable(h.Message, maxDetailBytes)
	}
	d := h.Details
	if d.PoolCapacityGiB != nil && d.PoolAvailableGiB != nil {
		v.Pool = poolBar(*d.PoolCapacityGiB, *d.PoolAvailableGiB)
	}
	add := func(name, value string) {
		if value != "" {
			v.Facts = append(v.Facts, fact{name, value})
		}
	}
	add("instances", instances)
	if d.MemoryFreeMiB != nil {
		add("memory free", byteText(*d.MemoryFreeMiB<<20))
	}
	add("hostname", d.Hostname)
	add("libvirt", d.LibvirtVersion)
	add("domain type", d.DomainType)
	took := "tried for"
	if v.Mood != moodBad {
		took = "answered in"
	}
	add(took, fmt.Sprintf("%d ms", h.Latency.Milliseconds()))
	return v
}

// poolBar warns of a pool that is nearly full.
func poolBar(capacity, available float64) *bar {
	used := max(capacity-available, 0)
	m := moodGood
	switch {
	case used >= 0.95*capacity:
		m = moodBad
	case used >= 0.8*capacity:
		m = moodBusy
	}
	return barOf(used, capacity, m, fmt.Sprintf("%.1f of %.1f GiB used", used, capacity))
}

func imageViewOf(row instance.ImageStatus) imageView {
	v := imageView{Name: row.Image, Host: row.Host, Identity: row.Identity, State: string(row.State), Mood: moodIdle}
	switch row.State {
	case instance.ImageReady:
		v.Mood = moodGood
		v.Detail = fmt.Sprintf("%s, in use by %d", byteText(row.SizeBytes), row.Overlays)
	case instance.ImageDownloading:
		v.Mood = moodBusy
		v.Detail = byteText(row.BytesPerSecond) + "/s"
		if row.Attempt > 1 {
			v.Detail += fmt.Sprintf(", attempt %d", row.Attempt)
		}
		v.Progress = downloadBar(row)
	case instance.ImageFailed:
		v.Mood = moodBad
		v.Detail = printable(cmp.Or(row.Failure, string(row.Reason)), maxDetailBytes)
	case instance.ImageAbsent:
		v.Detail = "fetched when it is needed"
	}
	return v
}

func downloadBar(row instance.ImageStatus) *bar {
	if row.TotalBytes <= 0 {
		return barOf(0, 0, moodBusy, byteText(row.DoneBytes))
	}
	b := barOf(float64(row.DoneBytes), float64(row.TotalBytes), moodBusy, "")
	b.Text = fmt.Sprintf("%s of %s, %d %%", byteText(row.DoneBytes), byteText(row.TotalBytes), b.Percent)
	return b
}

func instanceViewOf(in instance.Instance, now time.Time) instanceView {
	v := instanceView{
		ID: in.ID.String(), Name: in.ID.Name, Host: in.ID.Host, State: string(in.State), Reason: printable(in.StateReason, maxDetailBytes),
		Shape: in.Image + ", " + in.Size,
	}
	switch in.State {
	case instance.Running:
		v.Mood = moodGood
	case instance.Provisioning:
		v.Mood = moodBusy
	default:
		v.Mood = moodBad
	}
	switch {
	case in.IP.IsValid():
		v.Address = in.IP.String()
	case len(in.Addresses) > 0:
		v.Address = in.Addresses[0].Addr.String()
	}
	if !in.CreatedAt.IsZero() {
		v.Age, v.CreatedAt = age(now.Sub(in.CreatedAt)), in.CreatedAt.UTC().Format(time.RFC3339)
	}
	return v
}
