package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/kdomanski/iso9660"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// The files of a NoCloud seed. cloud-init takes a seed only when user-data and
// meta-data are both there; names that are constants cannot leave the library's
// staging directory.
const (
	seedLabel      = "cidata"
	userDataFile   = "user-data"
	metaDataFile   = "meta-data"
	vendorDataFile = "vendor-data"
)

// Offsets of the primary volume descriptor's three times in the ISO, 17 bytes each.
const (
	descriptorAt  = 16 * 2048
	createdAt     = descriptorAt + 813
	modifiedAt    = descriptorAt + 830
	effectiveAt   = descriptorAt + 864
	isoTimeDigits = 16
)

// Seed implements instance.Images. The same input gives the same bytes.
func (c *Cache) Seed(ctx context.Context, img instance.Image, s instance.Seed) ([]byte, error) {
	const op = "build seed"
	select {
	case c.seeds <- struct{}{}:
		defer func() { <-c.seeds }()
	case <-ctx.Done():
		return nil, ended(ctx, op, "")
	}
	vendor, err := vendorData(img.VendorDataFile)
	if err != nil {
		return nil, &instance.Error{Reason: instance.ReasonMisconfigured, Op: op, Detail: "vendor data file of image " + img.Name, Err: err}
	}
	iso, err := buildISO(map[string][]byte{
		userDataFile:   s.UserData,
		metaDataFile:   metaData(s),
		vendorDataFile: vendor,
	})
	if err != nil {
		return nil, &instance.Error{Reason: instance.ReasonInternal, Op: op, Err: err}
	}
	return iso, nil
}

// metaData is YAML of a UUID, which is plain text to it, and of a DNS label,
// which may look like a number, a date or a truth value and is quoted then.
// Simple guests read the file line by line, so the usual label stays bare.
func metaData(s instance.Seed) []byte {
	hostname := s.Hostname
	if hostname == "" || hostname[0] < 'a' || hostname[0] > 'z' || slices.Contains(yamlWords, hostname) {
		hostname = strconv.Quote(hostname)
	}
	return fmt.Appendf(nil, "instance-id: %s\nlocal-hostname: %s\n", s.InstanceID, hostname)
}

// yamlWords are the labels that YAML 1.1 takes for something else than text.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// buildISO returns an ISO 9660 image with the files. The library stages files
// on disk, and user data is a secret: what it stages is zeros of the same
// length, and the contents are put into their extents in memory.
func buildISO(files map[string][]byte) (iso []byte, err error) {
	w, err := iso9660.NewWriter()
	if err != nil {
		return nil, err
	}
	defer func() {
		if cleanErr := w.Cleanup(); err == nil {
			err = cleanErr
		}
	}()
	for name, data := range files {
		if err := w.AddFile(io.LimitReader(zeros{}, int64(len(data))), name); err != nil {
			return nil, err
		}
	}
	var buf bytes.Buffer
	if err := w.WriteTo(&buf, seedLabel); err != nil {
		return nil, err
	}
	iso = buf.Bytes()
	if err := fillExtents(iso, files); err != nil {
		return nil, err
	}
	for _, at := range []int{createdAt, modifiedAt, effectiveAt} {
		clear(iso[at : at+isoTimeDigits+1])
		copy(iso[at:], bytes.Repeat([]byte{'0'}, isoTimeDigits)) // "not specified"
	}
	return iso, nil
}

// zeros reads zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// fillExtents writes each file's content where the image keeps it.
func fillExtents(iso []byte, files map[string][]byte) error {
	image, err := iso9660.OpenImage(bytes.NewReader(iso))
	if err != nil {
		return err
	}
	root, err := image.RootDir()
	if err != nil {
		return err
	}
	children, err := root.GetChildren()
	if err != nil {
		return err
	}
	for name, data := range files {
		i := slices.IndexFunc(children, func(f *iso9660.File) bool { return f.Name() == name })
		if i < 0 {
			return fmt.Errorf("the image lacks %s", name)
		}
		section, ok := children[i].Reader().(*io.SectionReader)
		if !ok || section.Size() != int64(len(data)) {
			return fmt.Errorf("the image has no place for %s", name)
		}
		_, offset, _ := section.Outer()
		if offset < descriptorAt || offset+int64(len(data)) > int64(len(iso)) {
			return fmt.Errorf("the image has %s at an impossible offset", name)
		}
		copy(iso[offset:], data)
	}
	return nil
}
