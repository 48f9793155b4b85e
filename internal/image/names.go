package image

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Volume names: kvm2-base.<image>.<identity12>.<attempt8>.<format> for a base
// disk, kvm2-base.<image>.<identity12>.marker.qcow2 for its marker. An image's
// name is a DNS label, so a dot always separates.
const (
	basePrefix   = "kvm2-base."
	markerSuffix = ".marker.qcow2"

	formatQCOW2 = "qcow2"
	formatRaw   = "raw"

	identityHex = 12
	attemptHex  = 8
)

// key is one content of one image on one host.
type key struct {
	host     string
	image    string
	identity string
}

func keyOf(host string, img instance.Image) key {
	return key{host: host, image: img.Name, identity: identityOf(img)}
}

// prefix is what the names of all volumes of this content start with.
func (k key) prefix() string { return basePrefix + k.image + "." + k.identity + "." }

// marker is the name of the marker volume.
func (k key) marker() string { return basePrefix + k.image + "." + k.identity + markerSuffix }

// newBase is a fresh name for one attempt at a download.
func (k key) newBase(format string) string {
	var b [attemptHex / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return k.prefix() + hex.EncodeToString(b[:]) + "." + format
}

// identityOf tells contents apart: 12 hex digits over the URL, its credentials
// left out, and the checksum.
func identityOf(img instance.Image) string {
	source := img.URL
	if u, err := url.Parse(img.URL); err == nil {
		u.User = nil // a rotated password is not another content, and a hash of one is a hint at it
		source = u.String()
	}
	sum := sha256.Sum256([]byte(source + "\nsha256:" + img.SHA256 + "\nsha512:" + img.SHA512))
	return hex.EncodeToString(sum[:])[:identityHex]
}

// volumeName is a parsed name of a volume of ours.
type volumeName struct {
	image    string
	identity string
	// format is of a base; "" for a marker.
	format string
}

func (n volumeName) isMarker() bool { return n.format == "" }

// parseName takes the name of a base or marker apart; false for any other volume.
func parseName(name string) (volumeName, bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 5 || parts[0]+"." != basePrefix || !instance.ValidLabel(parts[1]) || !isHex(parts[2], identityHex) {
		return volumeName{}, false
	}
	n := volumeName{image: parts[1], identity: parts[2]}
	if parts[3] == "marker" && parts[4] == formatQCOW2 {
		return n, true
	}
	if !isHex(parts[3], attemptHex) || (parts[4] != formatQCOW2 && parts[4] != formatRaw) {
		return volumeName{}, false
	}
	n.format = parts[4]
	return n, true
}

func isHex(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdef") == ""
}
