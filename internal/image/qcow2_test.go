package image

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestParseQCOW2_refusals(t *testing.T) {
	const fileBytes = 4 << 16
	be := binary.BigEndian
	u32 := func(at int, v uint32) func([]byte) { return func(b []byte) { be.PutUint32(b[at:], v) } }
	u64 := func(at int, v uint64) func([]byte) { return func(b []byte) { be.PutUint64(b[at:], v) } }
	compressed := func(headerBytes uint32, kind byte) func([]byte) {
		return func(b []byte) {
			be.PutUint64(b[72:], qcow2Compression)
			be.PutUint32(b[100:], headerBytes)
			b[104] = kind
		}
	}
	for _, tt := range []struct {
		name   string
		change func([]byte)
		want   string // part of the error, "" for none
	}{
		{"version 3", func([]byte) {}, ""},
		{"version 2", u32(4, 2), ""},
		{"version 1", u32(4, 1), "version 1"},
		{"version 4", u32(4, 4), "version 4"},
		{"backing file", u64(8, 512), "backing file"},
		{"encrypted", u32(32, 1), "encrypted"},
		{"LUKS", u32(32, 2), "encrypted"},
		{"dirty", u64(72, qcow2Dirty), ""},
		{"corrupt", u64(72, qcow2Corrupt), "corrupt"},
		{"external data", u64(72, qcow2ExternalData), "external data file"},
		{"zstd clusters", compressed(112, 1), ""},
		{"zlib clusters, but a feature", compressed(112, 0), "compression"},
		{"clusters compressed somehow", compressed(112, 2), "compression"},
		{"compression behind the header", compressed(104, 1), "compression"},
		{"extended L2, table too small for it", func(b []byte) {
			be.PutUint64(b[72:], qcow2ExtendedL2)
			be.PutUint64(b[24:], 2<<30)
		}, "L1 table"},
		{"unknown feature", u64(72, 1<<40), "unknown incompatible features 0x10000000000"},
		{"clusters too small", u32(20, 8), "clusters"},
		{"clusters too large", u32(20, 22), "clusters"},
		{"clusters absurd", u32(20, 1<<31), "clusters"},
		{"no size", u64(24, 0), "virtual size"},
		{"absurd size", u64(24, 1<<63), "virtual size"},
		{"L1 too short", u32(36, 1), "L1 table"},
		{"L1 absurd", u32(36, 1<<31), "L1 table"},
		{"L1 nowhere", u64(40, 0), "L1 table"},
		{"L1 unaligned", u64(40, 100), "L1 table"},
		{"L1 past the end", u64(40, 1<<30), "L1 table"},
		{"L1 past everything", u64(40, 1<<63), "L1 table"},
		{"L1 ends past the end", func(b []byte) {
			be.PutUint32(b[36:], 8193) // 64 KiB and one entry, in the last cluster
			be.PutUint64(b[40:], 3<<16)
		}, "L1 table"},
		{"no refcounts", u32(56, 0), "refcount table"},
		{"refcounts absurd", u32(56, 1<<31), "refcount table"},
		{"refcounts past the end", u64(48, 1<<30), "refcount table"},
		{"refcount width", u32(96, 7), "refcounts"},
		{"header too short", u32(100, 72), "header length"},
		{"header too long", u32(100, 1<<20), "header length"},
		{"snapshots absurd", u32(60, 1<<20), "snapshots"},
		{"snapshots past the end", func(b []byte) {
			be.PutUint32(b[60:], 1)
			be.PutUint64(b[64:], 1<<30)
		}, "snapshot table"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head := qcow2Bytes(t, testVirtual, fileBytes)[:headBytes]
			tt.change(head)
			got, err := parseQCOW2(head, fileBytes)
			if tt.want == "" {
				if err != nil || got != testVirtual {
					t.Errorf("got %d, %v, want %d", got, err, int64(testVirtual))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
	for _, n := range []int{4, 71, 103} {
		if _, err := parseQCOW2(qcow2Bytes(t, testVirtual, fileBytes)[:n], fileBytes); err == nil {
			t.Errorf("a header of %d bytes is taken", n)
		}
	}
}

func TestDetect_formats(t *testing.T) {
	qcow2 := qcow2Bytes(t, testVirtual, mib)[:headBytes]
	raw := rawBytes(headBytes)
	gpt := make([]byte, headBytes)
	copy(gpt[512:], "EFI PART")
	gpt4k := make([]byte, headBytes)
	copy(gpt4k[4096:], "EFI PART")
	text := []byte(strings.Repeat("plain text, ", 200))
	textWith55AA := append([]byte(nil), text...)
	textWith55AA[510], textWith55AA[511] = 0x55, 0xAA
	zeroes := make([]byte, headBytes)
	for _, tt := range []struct {
		name     string
		head     []byte
		declared string
		want     string
		wantErr  string
	}{
		{"qcow2", qcow2, "", "qcow2", ""},
		{"qcow2 as said", qcow2, "qcow2", "qcow2", ""},
		{"qcow2, raw was said", qcow2, "raw", "", "configured as raw"},
		{"MBR", raw, "", "raw", ""},
		{"MBR as said", raw, "raw", "raw", ""},
		{"MBR, qcow2 was said", raw, "qcow2", "", "a raw disk, but the image is configured as qcow2"},
		{"GPT", gpt, "", "raw", ""},
		{"GPT on 4 KiB sectors", gpt4k, "", "raw", ""},
		{"no table", zeroes, "", "", "neither qcow2 nor a raw disk"},
		{"no table, raw was said", zeroes, "raw", "raw", ""},
		{"text", text, "", "", "content is text"},
		{"text with an MBR's signature", textWith55AA, "", "", "neither qcow2 nor a raw disk"},
		{"HTML", []byte("<html><body>log in"), "", "", "an HTML page"},
		{"HTML, raw was said", []byte("<html><body>log in"), "raw", "", "an HTML page"},
		{"VMDK", []byte("KDMV\x01\x00\x00\x00"), "", "", "a VMDK disk"},
		{"VMDK, raw was said", []byte("KDMV\x01\x00\x00\x00"), "raw", "", "a VMDK disk"},
		{"compressed twice", []byte("\x1f\x8b\x08\x00"), "raw", "", "compressed twice"},
		{"nothing", nil, "", "", "neither"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := detect(tt.head, tt.declared, 0)
			if (err == nil) != (tt.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("got error %v, want %q", err, tt.wantErr)
			}
			if err == nil && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzParseQCOW2(f *testing.F) {
	f.Add(qcow2Bytes(f, testVirtual, mib)[:512], int64(mib))
	f.Add([]byte(qcow2Magic), int64(0))
	f.Fuzz(func(t *testing.T, head []byte, fileBytes int64) {
		virtual, err := parseQCOW2(head, max(fileBytes, 0))
		if err == nil && (virtual <= 0 || virtual > maxVirtualBytes) {
			t.Errorf("took a disk of %d bytes", virtual)
		}
	})
}

func FuzzDetect(f *testing.F) {
	f.Add(rawBytes(1024), "", int64(1024))
	f.Add([]byte("<html>"), "raw", int64(6))
	f.Fuzz(func(t *testing.T, head []byte, declared string, fileBytes int64) {
		format, _, err := detect(head, declared, max(fileBytes, 0))
		if err == nil && format != formatQCOW2 && format != formatRaw {
			t.Errorf("took a disk of format %q", format)
		}
	})
}

func FuzzParseName(f *testing.F) {
	f.Add("kvm2-base.debian.0123456789ab.deadbeef.qcow2")
	f.Add("kvm2-base.debian.0123456789ab.marker.qcow2")
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := parseName(name)
		if ok && !strings.HasPrefix(name, key{image: n.image, identity: n.identity}.prefix()) {
			t.Errorf("%q was taken for %+v", name, n)
		}
	})
}
