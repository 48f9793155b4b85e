package libvirtx

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// domainView is what we read in a domain's XML. It is shared by all who hold
// it and never changed.
type domainView struct {
	// Mark is nil for a domain that carries none of ours.
	Mark *instance.Mark
	// RootDisk is the file of the root disk, "" without one.
	RootDisk string
	// MACs are those of the domain's own network cards, lower case.
	MACs []string
	// Networks are the libvirt networks that the cards are plugged into.
	Networks []string
}

// domainDoc picks from a domain's XML the few elements that matter; anything
// else a host may write there is passed over.
type domainDoc struct {
	XMLName  xml.Name `xml:"domain"`
	Metadata struct {
		Inner string `xml:",innerxml"`
	} `xml:"metadata"`
	Disks []struct {
		Source struct {
			File string `xml:"file,attr"`
		} `xml:"source"`
		Target struct {
			Dev string `xml:"dev,attr"`
		} `xml:"target"`
	} `xml:"devices>disk"`
	Interfaces []struct {
		MAC struct {
			Address string `xml:"address,attr"`
		} `xml:"mac"`
		Source struct {
			Network string `xml:"network,attr"`
		} `xml:"source"`
	} `xml:"devices>interface"`
}

// parseDomain reads the answer of DomainGetXMLDesc. It fails on XML that is
// none, and on a mark of ours that is broken; the view is then what could be
// read besides.
func parseDomain(doc string) (domainView, error) {
	var in domainDoc
	if err := xml.Unmarshal([]byte(doc), &in); err != nil {
		return domainView{}, fmt.Errorf("parse domain: %w", err)
	}
	var view domainView
	for _, d := range in.Disks {
		if d.Target.Dev == rootDevice && d.Source.File != "" {
			view.RootDisk = d.Source.File
			break
		}
	}
	for _, nic := range in.Interfaces {
		if mac := strings.ToLower(nic.MAC.Address); mac != "" {
			view.MACs = append(view.MACs, mac)
		}
		if name := nic.Source.Network; name != "" && !slices.Contains(view.Networks, name) {
			view.Networks = append(view.Networks, name)
		}
	}
	mark, err := ParseMetadata(in.Metadata.Inner)
	view.Mark = mark
	return view, err
}
