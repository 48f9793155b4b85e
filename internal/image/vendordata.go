package image

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"os"
)

// agentScript is our vendor data. It is a shell script and no cloud-config:
// cloud-init merges a vendor's cloud-config with the user's, and the user's
// runcmd would replace ours.
//
//go:embed agent.sh
var agentScript []byte

const (
	// maxVendorDataBytes bounds a configured file, which ends up in every seed.
	maxVendorDataBytes = 1 << 20

	// vendorBoundary cannot occur in base64.
	vendorBoundary = "==kvm2d_vendor_data=="
	base64Line     = 76
)

// vendorData is the script alone, or a MIME multipart of it and the file's
// content, in which cloud-init runs the one and does with the other what its
// first line asks for.
func vendorData(file string) ([]byte, error) {
	if file == "" {
		return agentScript, nil
	}
	extra, err := readBounded(file)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n\n", vendorBoundary)
	writePart(&b, "kvm2d-agent.sh", agentScript)
	writePart(&b, "vendor-data", extra)
	fmt.Fprintf(&b, "--%s--\n", vendorBoundary)
	return b.Bytes(), nil
}

// readBounded reads a file that is not larger than vendor data may be.
func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxVendorDataBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxVendorDataBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxVendorDataBytes)
	}
	return data, nil
}

// writePart writes one part, in base64 so that no byte of it changes.
func writePart(b *bytes.Buffer, name string, data []byte) {
	fmt.Fprintf(b, "--%s\nContent-Type: %s; charset=\"utf-8\"\nMIME-Version: 1.0\nContent-Transfer-Encoding: base64\n"+
		"Content-Disposition: attachment; filename=%q\n\n", vendorBoundary, partType(data), name)
	text := base64.StdEncoding.EncodeToString(data)
	for len(text) > base64Line {
		b.WriteString(text[:base64Line] + "\n")
		text = text[base64Line:]
	}
	b.WriteString(text + "\n")
}

// partType is the type that cloud-init knows a content by; text/plain lets it
// look for itself.
func partType(data []byte) string {
	for _, known := range []struct{ start, mime string }{
		{"#!", "text/x-shellscript"},
		{"#cloud-config", "text/cloud-config"},
		{"#cloud-boothook", "text/cloud-boothook"},
		{"#include", "text/x-include-url"},
		{"## template: jinja", "text/jinja2"},
	} {
		if bytes.HasPrefix(data, []byte(known.start)) {
			return known.mime
		}
	}
	return "text/plain"
}
