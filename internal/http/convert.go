package http

import (
	"encoding/base64"
	"maps"
	"net/netip"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// optional returns nil for the zero value: a field that is absent.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// value returns what p points to, the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// specOf makes a Spec of a validated body.
func specOf(b gen.InstanceSpec) (instance.Spec, error) {
	userData, err := userDataOf(b)
	if err != nil {
		return instance.Spec{}, err
	}
	return instance.Spec{
		Name:      b.Name,
		UID:       value(b.UID),
		Placement: b.Placement,
		Image:     value(b.Image),
		Size:      value(b.Size),
		UserData:  userData,
		Tags:      value(b.Tags),
		Autostart: b.Autostart == nil || *b.Autostart,
	}, nil
}

func userDataOf(b gen.InstanceSpec) (instance.Secret, error) {
	if b.CloudInitBase64 == nil {
		return instance.Secret(value(b.CloudInit)), nil
	}
	if b.CloudInit != nil {
		return nil, invalidf("#/cloudInitBase64", "must not be there beside cloudInit")
	}
	data, err := base64.StdEncoding.Strict().DecodeString(*b.CloudInitBase64)
	if err != nil {
		// The cause would name an offset into a secret; its place is enough.
		return nil, invalidf("#/cloudInitBase64", "must be standard base64 with padding")
	}
	return data, nil
}

// filterOf makes a Filter of validated query parameters.
func filterOf(p gen.ListInstancesParams) (instance.Filter, error) {
	f := instance.Filter{
		Host:      value(p.Host),
		Placement: value(p.Placement),
		State:     instance.State(value(p.State)),
		Partial:   value(p.Partial),
	}
	for _, tag := range value(p.Tag) {
		key, val, _ := strings.Cut(tag, "=")
		if had, ok := f.Tags[key]; ok && had != val {
			return instance.Filter{}, invalidf("query/tag", "one key is asked for with two values")
		}
		if f.Tags == nil {
			f.Tags = map[string]string{}
		}
		f.Tags[key] = val
	}
	return f, nil
}

func instanceJSON(in instance.Instance) gen.Instance {
	out := gen.Instance{
		ID:          in.ID.String(),
		Name:        in.ID.Name,
		UID:         in.UID,
		Host:        in.ID.Host,
		Placement:   in.Placement,
		Image:       in.Image,
		Size:        in.Size,
		State:       gen.InstanceState(in.State),
		StateReason: optional(in.StateReason),
		Addresses:   make([]gen.Address, 0, len(in.Addresses)),
		CreatedAt:   timeJSON(in.CreatedAt),
		Tags:        gen.Tags{},
	}
	maps.Copy(out.Tags, in.Tags)
	if in.IP.IsValid() {
		out.IP = optional(in.IP.String())
	}
	for _, a := range in.Addresses {
		out.Addresses = append(out.Addresses, gen.Address{
			Address: a.Addr.String(), Family: family(a.Addr), Source: gen.AddressSource(a.Source), Mac: a.MAC,
		})
	}
	return out
}

func family(a netip.Addr) gen.AddressFamily {
	if a.Is4() {
		return gen.Ipv4
	}
	return gen.Ipv6
}

// timeJSON is RFC 3339 in UTC, absent when not known.
func timeJSON(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func listJSON(p instance.Page) gen.InstanceList {
	out := gen.InstanceList{
		Items:       make([]gen.Instance, 0, len(p.Items)),
		Unreachable: make([]gen.UnreachableHost, 0, len(p.Unreachable)),
	}
	for _, in := range p.Items {
		out.Items = append(out.Items, instanceJSON(in))
	}
	for _, u := range p.Unreachable {
		out.Unreachable = append(out.Unreachable, gen.UnreachableHost{Host: u.Host, Reason: string(u.Reason)})
	}
	return out
}

func planJSON(p instance.Plan) gen.CreatePlan {
	return gen.CreatePlan{
		Host: p.Host, NeededBytes: p.NeededBytes, AvailableBytes: p.AvailableBytes, ImageState: gen.ImageState(p.ImageState),
	}
}

func imagesJSON(rows []instance.ImageStatus) gen.ImageList {
	out := gen.ImageList{Items: make([]gen.Image, 0, len(rows))}
	for _, row := range rows {
		out.Items = append(out.Items, imageJSON(row))
	}
	return out
}

// imageJSON shows what belongs to the row's state and leaves out the rest.
func imageJSON(row instance.ImageStatus) gen.Image {
	out := gen.Image{
		Image: row.Image, Host: row.Host, Identity: row.Identity, State: gen.ImageState(row.State),
		Attempt: optional(row.Attempt),
		Failure: optional(printable(row.Failure, maxDetailBytes)),
		Reason:  optional(string(row.Reason)),
	}
	switch row.State {
	case instance.ImageReady:
		out.SizeBytes, out.Overlays = &row.SizeBytes, &row.Overlays
	case instance.ImageDownloading:
		out.DoneBytes, out.TotalBytes, out.BytesPerSecond = &row.DoneBytes, optional(row.TotalBytes), &row.BytesPerSecond
		out.StartedAt = timeJSON(row.StartedAt)
	case instance.ImageAbsent, instance.ImageFailed:
	}
	return out
}

func reportJSON(rep instance.Report) gen.HealthReport {
	out := gen.HealthReport{Status: gen.HealthReportStatus(rep.Status), Hosts: make([]gen.HostHealth, 0, len(rep.Hosts))}
	for _, h := range rep.Hosts {
		out.Hosts = append(out.Hosts, gen.HostHealth{
			Host: h.Host, Ready: h.Ready, Reason: string(h.Reason), Message: printable(h.Message, maxDetailBytes),
			LatencyMs: h.Latency.Milliseconds(), Details: detailsJSON(h.Details),
		})
	}
	return out
}

func detailsJSON(d instance.HostDetails) gen.HostDetails {
	out := gen.HostDetails{
		User: optional(d.User), Hostname: optional(d.Hostname), HostUUID: optional(d.HostUUID),
		LibvirtVersion: optional(d.LibvirtVersion), DomainType: optional(d.DomainType),
		Pool: optional(d.Pool), PoolState: optional(d.PoolState),
		PoolCapacityGiB: d.PoolCapacityGiB, PoolAvailableGiB: d.PoolAvailableGiB, MemoryFreeMiB: d.MemoryFreeMiB,
	}
	if len(d.Firmware) > 0 {
		out.Firmware = &d.Firmware
	}
	return out
}

func placementsJSON(ps []instance.Placement) gen.PlacementList {
	out := gen.PlacementList{Items: make([]gen.Placement, 0, len(ps))}
	for _, p := range ps {
		out.Items = append(out.Items, gen.Placement{Name: p.Name, Host: p.Host, Image: p.Image, Size: p.Size})
	}
	return out
}
