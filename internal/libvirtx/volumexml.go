package libvirtx

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const formatQCOW2 = "qcow2"

// volumeXML describes v for StorageVolCreateXML. Nothing is allocated ahead:
// the room was checked before, and preallocating writes zeros where the file
// system knows no better. qcow2 is of version 3 (compat 1.1), which libvirt's
// default is not everywhere.
func volumeXML(v instance.NewVolume) (string, error) {
	if v.CapacityBytes < 0 {
		return "", fmt.Errorf("encode volume: capacity of %d bytes", v.CapacityBytes)
	}
	out := libvirtxml.StorageVolume{
		Name:       v.Name,
		Capacity:   &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(v.CapacityBytes)},
		Allocation: &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: 0},
		Target:     &libvirtxml.StorageVolumeTarget{Format: &libvirtxml.StorageVolumeTargetFormat{Type: v.Format}},
	}
	if v.Format == formatQCOW2 {
		out.Target.Compat = "1.1"
	}
	if v.BackingPath != "" {
		out.BackingStore = &libvirtxml.StorageVolumeBackingStore{
			Path:   v.BackingPath,
			Format: &libvirtxml.StorageVolumeTargetFormat{Type: v.BackingFormat},
		}
	}
	doc, err := out.Marshal()
	if err != nil {
		return "", fmt.Errorf("encode volume: %w", err)
	}
	return doc, nil
}

// parseVolume reads the answer of StorageVolGetXMLDesc.
func parseVolume(doc string) (instance.Volume, error) {
	var in libvirtxml.StorageVolume
	if err := in.Unmarshal(doc); err != nil {
		return instance.Volume{}, fmt.Errorf("parse volume: %w", err)
	}
	if in.Name == "" || in.Target == nil || in.Target.Path == "" {
		return instance.Volume{}, fmt.Errorf("parse volume: no name or path")
	}
	v := instance.Volume{
		Name:            in.Name,
		Path:            in.Target.Path,
		CapacityBytes:   sizeBytes(in.Capacity),
		AllocationBytes: sizeBytes(in.Allocation),
		PhysicalBytes:   sizeBytes(in.Physical),
	}
	if in.Target.Format != nil {
		v.Format = in.Target.Format.Type
	}
	if in.Target.Timestamps != nil {
		v.ModifiedAt = parseTimestamp(in.Target.Timestamps.Mtime)
	}
	if in.BackingStore != nil {
		v.BackingPath = in.BackingStore.Path
	}
	return v, nil
}

// sizeBytes is 0 for an absent size; libvirt answers in bytes.
func sizeBytes(s *libvirtxml.StorageVolumeSize) int64 {
	if s == nil {
		return 0
	}
	return clampBytes(s.Value)
}

// clampBytes keeps what a host claims within an int64.
func clampBytes(n uint64) int64 {
	const most = 1<<63 - 1
	if n > most {
		return most
	}
	return int64(n)
}

// parseTimestamp reads "seconds.nanoseconds" since 1970; zero when it is not that.
func parseTimestamp(s string) time.Time {
	sec, frac, _ := strings.Cut(s, ".")
	seconds, err := strconv.ParseInt(sec, 10, 64)
	if err != nil {
		return time.Time{}
	}
	// The fraction is padded to nanoseconds: ".5" is half a second.
	nanos, err := strconv.ParseInt((frac + "000000000")[:9], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, nanos).UTC()
}
