package main

import (
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// catalogOf turns what is configured into what callers may ask for.
func catalogOf(k config.KVM2) instance.Catalog {
	c := instance.Catalog{
		Images:     make(map[string]instance.Image, len(k.Images)),
		Sizes:      make(map[string]instance.Size, len(k.Sizes)),
		Placements: make(map[string]instance.Placement, len(k.Placements)),
	}
	for name, i := range k.Images {
		c.Images[name] = instance.Image{
			Name: name, URL: i.URL, SHA256: i.SHA256, SHA512: i.SHA512, Format: i.Format,
			Firmware: instance.Firmware(i.Firmware), VendorDataFile: i.VendorDataFile,
			DecompressLimitBytes: int64(i.DecompressLimitGiB) << 30,
		}
	}
	for name, s := range k.Sizes {
		c.Sizes[name] = instance.Size{Name: name, VCPUs: s.VCPUs, MemoryMiB: s.MemoryMiB, DiskGiB: s.DiskGiB}
	}
	for name, p := range k.Placements {
		c.Placements[name] = instance.Placement{Name: name, Host: p.Host, Image: p.Image, Size: p.Size}
	}
	return c
}
