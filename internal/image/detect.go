package image

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// headBytes is how much of a content is looked at before anything is made of
// it: enough for a qcow2 header, and for a GPT header on 4 KiB sectors.
const headBytes = 8 << 10

// foreign are contents that are disks or archives to somebody else, never to us.
var foreign = []struct{ magic, what string }{
	{"KDMV", "a VMDK disk"},
	{"vhdxfile", "a VHDX disk"},
	{"conectix", "a VHD disk"},
	{"<<< Oracle VM VirtualBox Disk Image", "a VDI disk"},
	{"QED\x00", "a QED disk"},
	{"BZh", "a bzip2 file"},
	{"PK\x03\x04", "a zip file"},
	{"7z\xbc\xaf\x27\x1c", "a 7z file"},
}

// detect tells the format of a disk from its first bytes. declared is the
// configured format, "" when the content decides. fileBytes is the content's
// length, 0 when it is not known yet; then the virtual size of a raw disk, which
// is its length, comes back as 0 too. The error says why it is no disk for us.
func detect(head []byte, declared string, fileBytes int64) (format string, virtualBytes int64, err error) {
	if bytes.HasPrefix(head, []byte(qcow2Magic)) {
		if declared == formatRaw {
			return "", 0, fmt.Errorf("content is qcow2, but the image is configured as raw")
		}
		virtualBytes, err = parseQCOW2(head, fileBytes)
		return formatQCOW2, virtualBytes, err
	}
	if declared == formatQCOW2 {
		return "", 0, fmt.Errorf("content is %s, but the image is configured as qcow2", describe(head))
	}
	if c := compressionOf(head); c != "" {
		return "", 0, fmt.Errorf("content is compressed twice (%s)", c)
	}
	if what := foreignKind(head); what != "" {
		return "", 0, fmt.Errorf("content is %s, only qcow2 and raw disks are supported", what)
	}
	if declared != formatRaw && !hasPartitionTable(head) {
		return "", 0, fmt.Errorf("content is %s: neither qcow2 nor a raw disk with an MBR or GPT", describe(head))
	}
	return formatRaw, fileBytes, nil
}

// foreignKind names a known content that is not ours, or returns "".
func foreignKind(head []byte) string {
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.what
		}
	}
	if strings.HasPrefix(http.DetectContentType(head), "text/html") {
		return "an HTML page"
	}
	return ""
}

// describe names a content for an error message.
func describe(head []byte) string {
	if what := foreignKind(head); what != "" {
		return what
	}
	if hasPartitionTable(head) {
		return "a raw disk"
	}
	if strings.HasPrefix(http.DetectContentType(head), "text/") {
		return "text"
	}
	return "unknown"
}

// hasPartitionTable reports whether head starts a disk with a GPT (sectors of
// 512 or 4096 bytes) or with an MBR whose entries can be true.
func hasPartitionTable(head []byte) bool {
	for _, sector := range []int{512, 4096} {
		if len(head) >= sector+8 && string(head[sector:sector+8]) == "EFI PART" {
			return true
		}
	}
	if len(head) < 512 || head[510] != 0x55 || head[511] != 0xAA {
		return false
	}
	for entry := 446; entry < 510; entry += 16 {
		if status := head[entry]; status != 0x00 && status != 0x80 {
			return false
		}
	}
	return true
}
