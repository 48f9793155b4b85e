package image

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// pack compresses b as a publisher would.
func pack(tb testing.TB, compression string, b []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch compression {
	case compressionGzip:
		w = gzip.NewWriter(&out)
	case compressionXZ:
		w, err = xz.NewWriter(&out)
	case compressionZstd:
		w, err = zstd.NewWriter(&out)
	}
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func TestEnsureImage_compressed(t *testing.T) {
	for name, content := range map[string][]byte{
		"qcow2": qcow2Bytes(t, testVirtual, 0), "raw": rawBytes(mib / 16),
	} {
		for _, compression := range []string{compressionGzip, compressionXZ, compressionZstd} {
			t.Run(name+" "+compression, func(t *testing.T) {
				packed := pack(t, compression, content)
				pool, img := newMemPool(testHost), imageOf(packed)
				k := newKit(t, pool, &site{content: packed})
				base := k.mustEnsure(t, img)
				if base.Format != name {
					t.Errorf("got format %s, want %s", base.Format, name)
				}
				wantClean(t, pool, img, content)
			})
		}
	}
}

func TestEnsureImage_compressedRefusals(t *testing.T) {
	const size = mib / 16
	disk := rawBytes(size)
	packed := pack(t, compressionGzip, disk)
	broken := bytes.Clone(packed)
	broken[len(broken)/2] ^= 0xFF
	wrongSum := bytes.Clone(packed)
	wrongSum[len(wrongSum)-8] ^= 0xFF
	xzBroken := pack(t, compressionXZ, disk)
	xzBroken[len(xzBroken)/2] ^= 0xFF
	cutXZ := pack(t, compressionXZ, disk)
	cutXZ = cutXZ[:len(cutXZ)-20]
	zstdBroken := pack(t, compressionZstd, disk)
	zstdBroken[len(zstdBroken)-1] ^= 0xFF
	for _, tt := range []struct {
		name   string
		packed []byte
		change func(*instance.Image)
		want   instance.Reason
		word   string
	}{
		{"expands past the limit", packed, func(i *instance.Image) { i.DecompressLimitBytes = size - 1 }, instance.ReasonImageInvalid, "more than 65535 bytes"},
		{"expands to the limit", packed, func(i *instance.Image) { i.DecompressLimitBytes = size }, "", ""},
		{"broken gzip", broken, nil, instance.ReasonImageInvalid, "gzip"},
		{"gzip with a wrong sum", wrongSum, nil, instance.ReasonImageInvalid, "gzip"},
		{"broken xz", xzBroken, nil, instance.ReasonImageInvalid, "xz"},
		{"broken zstd", zstdBroken, nil, instance.ReasonImageInvalid, "zstd"},
		{"cut gzip", packed[:len(packed)-9], nil, instance.ReasonImageInvalid, "gzip"},
		{"cut xz", cutXZ, nil, instance.ReasonImageInvalid, "xz"},
		{"junk behind gzip", append(bytes.Clone(packed), "junk"...), nil, instance.ReasonImageInvalid, "gzip"},
		{"twice", pack(t, compressionGzip, packed), nil, instance.ReasonImageInvalid, "compressed twice"},
		{"a page", pack(t, compressionGzip, []byte("<html>")), nil, instance.ReasonImageInvalid, "HTML"},
		{"wrong checksum", packed, func(i *instance.Image) { i.SHA256 = strings.Repeat("0", 64) }, instance.ReasonChecksumMismatch, "sha256"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool, img := newMemPool(testHost), imageOf(tt.packed)
			if tt.change != nil {
				tt.change(&img)
			}
			k := newKit(t, pool, &site{content: tt.packed})
			_, err := k.ensure(t.Context(), img)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantReason(t, err, tt.want)
			if !strings.Contains(err.Error(), tt.word) {
				t.Errorf("got %v, want it to say %q", err, tt.word)
			}
			if got := pool.writes(); len(got) != 0 {
				t.Errorf("got writes %v, want none", got)
			}
		})
	}
}

// An xz file may ask its reader for a dictionary of 4 GiB; ours does not give it.
func TestDecompress_boundsTheDictionary(t *testing.T) {
	packed := pack(t, compressionXZ, rawBytes(mib/16))
	// The block header: size, flags, filter id, size of properties, dictionary.
	const dictionary = 12 + 2 + 2
	packed[dictionary] = 40 // 4 GiB - 1
	fixBlockHeaderSum(packed[12:])
	r, release, err := decompress(compressionXZ, bytes.NewReader(packed), mib)
	defer release()
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err == nil || !strings.Contains(err.Error(), "dictionary") {
		t.Errorf("got %v, want the dictionary refused", err)
	}
}

// The quota of a compressed image is its disk's size where the header tells it,
// else what it may expand to.
func TestCheckPoolSpace_compressedImage(t *testing.T) {
	const limit = 5 << 30
	for _, tt := range []struct {
		name    string
		content []byte
		want    int64
	}{
		{"qcow2", qcow2Bytes(t, testVirtual, 0), testVirtual + testDisk + seedRoom},
		{"raw", rawBytes(mib / 16), limit + testDisk + seedRoom},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packed := pack(t, compressionZstd, tt.content)
			pool, img := newMemPool(testHost), imageOf(packed)
			img.DecompressLimitBytes = limit
			newKit(t, pool, &site{content: packed}).mustEnsure(t, img)
			if got := pool.asked[0]; got != tt.want {
				t.Errorf("asked for %d bytes, want %d", got, tt.want)
			}
		})
	}
}

// A compressed file that changes between measuring and storing starts anew.
func TestEnsureImage_compressedChangesBetweenPasses(t *testing.T) {
	for name, size := range map[string]int{"longer": mib / 8, "shorter": mib / 32} {
		t.Run(name, func(t *testing.T) {
			before, after := rawBytes(mib/16), rawBytes(size)
			s := &site{content: pack(t, compressionGzip, before)}
			s.fault = func(n int, _ http.ResponseWriter, _ *http.Request) bool {
				if n == 3 {
					s.content = pack(t, compressionGzip, after)
				}
				return false
			}
			pool, img := newMemPool(testHost), instance.Image{Name: "debian", URL: testURL}
			newKit(t, pool, s).mustEnsure(t, img)
			wantClean(t, pool, img, after)
		})
	}
}

func FuzzDecompress(f *testing.F) {
	for _, c := range []string{compressionGzip, compressionXZ, compressionZstd} {
		f.Add(pack(f, c, rawBytes(4096)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		r, release, err := decompress(compressionOf(b), bytes.NewReader(b), limit)
		defer release()
		if err != nil {
			return
		}
		if n, _ := io.Copy(io.Discard, r); n > limit {
			t.Errorf("got %d bytes, want at most %d", n, limit)
		}
	})
}

// fixBlockHeaderSum makes an xz block header's CRC32 right again.
func fixBlockHeaderSum(header []byte) {
	size := (int(header[0]) + 1) * 4
	binary.LittleEndian.PutUint32(header[size-4:], crc32.ChecksumIEEE(header[:size-4]))
}
