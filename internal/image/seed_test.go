package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kdomanski/iso9660"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const testUUID = "6f1c2d3e-0000-4000-8000-0123456789ab"

// buildSeed builds a seed with a kit of its own.
func buildSeed(tb testing.TB, img instance.Image, userData []byte) []byte {
	tb.Helper()
	k := newKit(tb, newMemPool(testHost), &site{})
	iso, err := k.cache.Seed(tb.Context(), img, instance.Seed{InstanceID: testUUID, Hostname: "proxy-1", UserData: userData})
	if err != nil {
		tb.Fatal(err)
	}
	return iso
}

// readISO returns label and files of an image.
func readISO(tb testing.TB, iso []byte) (label string, files map[string]string) {
	tb.Helper()
	image, err := iso9660.OpenImage(bytes.NewReader(iso))
	if err != nil {
		tb.Fatal(err)
	}
	label, err = image.Label()
	if err != nil {
		tb.Fatal(err)
	}
	root, err := image.RootDir()
	if err != nil {
		tb.Fatal(err)
	}
	children, err := root.GetChildren()
	if err != nil {
		tb.Fatal(err)
	}
	files = map[string]string{}
	for _, f := range children {
		b, err := io.ReadAll(f.Reader())
		if err != nil {
			tb.Fatal(err)
		}
		files[f.Name()] = string(b)
	}
	return label, files
}

func TestSeedISO_filesAndLabel(t *testing.T) {
	for _, userData := range []string{"#cloud-config\n", ""} {
		label, files := readISO(t, buildSeed(t, instance.Image{}, []byte(userData)))
		if strings.TrimRight(label, " \x00") != "cidata" {
			t.Errorf("got label %q, want cidata", label)
		}
		want := map[string]string{
			"user-data":   userData,
			"meta-data":   "instance-id: " + testUUID + "\nlocal-hostname: proxy-1\n",
			"vendor-data": string(agentScript),
		}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

func TestSeedISO_userDataByteForByte(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, userData := range map[string][]byte{
		"CRLF":              []byte("#cloud-config\r\nruncmd:\r\n- [true]\r\n"),
		"every byte":        every,
		"base64 stays text": []byte(base64.StdEncoding.EncodeToString([]byte("#cloud-config"))),
		"gzip stays gzip":   pack(t, compressionGzip, []byte("#cloud-config")),
		"one sector":        bytes.Repeat([]byte("x"), 2048),
		"a byte more":       bytes.Repeat([]byte("x"), 2049),
		"70 kB":             bytes.Repeat([]byte("0123456"), 10_000),
		"500 kB":            bytes.Repeat([]byte("01234"), 100_000),
		"no newline":        []byte("#!/bin/sh\ntrue"),
	} {
		t.Run(name, func(t *testing.T) {
			_, files := readISO(t, buildSeed(t, instance.Image{}, userData))
			if files["user-data"] != string(userData) {
				t.Errorf("got %d other bytes, want the %d given", len(files["user-data"]), len(userData))
			}
		})
	}
}

// Nothing stays on disk, and what was there for a moment held no user data.
func TestSeedISO_tempDirRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	seen := watchDir(t, dir, func() {
		for range 20 {
			buildSeed(t, instance.Image{}, bytes.Repeat([]byte("SENTINEL"), 10_000))
		}
	})
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("got %v left, want nothing", left)
	}
	if strings.Contains(seen, "SENTINEL") {
		t.Error("user data was on disk")
	}
}

// watchDir reads whatever files appear under dir while do runs.
func watchDir(tb testing.TB, dir string, do func()) string {
	tb.Helper()
	var seen strings.Builder
	quit := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
			}
			files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
			for _, f := range files {
				b, _ := os.ReadFile(f)
				seen.WriteString(strings.Trim(string(b), "\x00"))
			}
		}
	})
	do()
	close(quit)
	watcher.Wait()
	return seen.String()
}

func TestSeedISO_sameInputSameBytes(t *testing.T) {
	first := buildSeed(t, instance.Image{}, []byte("#cloud-config\n"))
	for range 3 {
		if !bytes.Equal(first, buildSeed(t, instance.Image{}, []byte("#cloud-config\n"))) {
			t.Fatal("the bytes differ")
		}
	}
}

func TestSeedISO_hostnamesAreText(t *testing.T) {
	for hostname, want := range map[string]string{
		"proxy-1": "proxy-1", "123": `"123"`, "2026-11-29": `"2026-11-29"`, "1e3": `"1e3"`, "no": `"no"`, "null": `"null"`, "": `""`,
	} {
		got := string(metaData(instance.Seed{InstanceID: testUUID, Hostname: hostname}))
		if !strings.HasSuffix(got, "\nlocal-hostname: "+want+"\n") {
			t.Errorf("got %q, want the hostname as %s", got, want)
		}
	}
}

func TestSeedISO_waitsForASlot(t *testing.T) {
	k := newKit(t, newMemPool(testHost), &site{}, func(o *Options) { o.SeedSlots = 1 })
	k.cache.seeds <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.cache.Seed(ctx, instance.Image{}, instance.Seed{})
	if got := instance.ReasonOf(err); got != instance.ReasonCancelled {
		t.Errorf("got %v, want Cancelled", err)
	}
	<-k.cache.seeds
}

// The files as the tools of a Linux guest see them.
func TestSeedISO_readByIsoinfo(t *testing.T) {
	isoinfo, err := exec.LookPath("isoinfo")
	if err != nil {
		t.Skip("isoinfo is not installed")
	}
	file := filepath.Join(t.TempDir(), "seed.iso")
	if err := os.WriteFile(file, buildSeed(t, instance.Image{}, []byte("a\r\nb")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), isoinfo, "-i", file, "-x", "/user-data;1").Output()
	if err != nil || string(out) != "a\r\nb" {
		t.Errorf("got %q, %v, want the user data", out, err)
	}
}

func TestVendorData_isShellScriptNotCloudConfig(t *testing.T) {
	got, err := vendorData("")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, []byte("#!/bin/sh\n")) {
		t.Errorf("got %.20q, want a shell script", got)
	}
	sh := exec.CommandContext(t.Context(), "sh", "-n")
	sh.Stdin = bytes.NewReader(got)
	if out, err := sh.CombinedOutput(); err != nil {
		t.Errorf("sh -n: %v: %s", err, out)
	}
	for _, tool := range []string{"qemu-guest-agent", "apt-get", "dnf", "apk", "systemctl", "rc-service"} {
		if !bytes.Contains(got, []byte(tool)) {
			t.Errorf("the script knows no %s", tool)
		}
	}
}

// In each kind of guest the script does what it can and ends well. The guests
// are directories of commands that note how they were called.
func TestVendorData_scriptInGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs shells for seconds")
	}
	for _, tt := range []struct {
		name  string
		tools map[string]string
		want  []string
	}{
		{"nothing there", nil, nil},
		{
			"Debian without the agent",
			map[string]string{
				"apt-get": `case "$*" in *install*) cp "$DIR/tool" "$DIR/qemu-ga";; esac`, "systemctl": "", "timeout": `shift; "$@"`,
			},
			[]string{
				"apt-get -o DPkg::Lock::Timeout=60 -q -y update",
				"apt-get -o DPkg::Lock::Timeout=60 -q -y --no-install-recommends install qemu-guest-agent",
				"systemctl enable qemu-guest-agent", "systemctl start qemu-guest-agent",
			},
		},
		{"Debian with the agent", map[string]string{"apt-get": "", "systemctl": "", "qemu-ga": ""}, []string{
			"systemctl enable qemu-guest-agent", "systemctl start qemu-guest-agent",
		}},
		{"Fedora", map[string]string{"dnf": `cp "$DIR/tool" "$DIR/qemu-ga"`, "systemctl": ""}, []string{
			"dnf -q -y install qemu-guest-agent", "systemctl enable qemu-guest-agent", "systemctl start qemu-guest-agent",
		}},
		{"Alpine", map[string]string{"apk": `cp "$DIR/tool" "$DIR/qemu-ga"`, "rc-service": "", "rc-update": ""}, []string{
			"apk add --no-cache qemu-guest-agent", "rc-update add qemu-guest-agent default", "rc-service qemu-guest-agent start",
		}},
		{"no network", map[string]string{"apt-get": "exit 100", "systemctl": ""}, []string{
			"apt-get -o DPkg::Lock::Timeout=60 -q -y update",
			"apt-get -o DPkg::Lock::Timeout=60 -q -y --no-install-recommends install qemu-guest-agent",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, runScript(t, tt.tools)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// runScript runs the vendor script where only the given tools exist and returns
// how they were called. The script installs packages, so nothing in its guest,
// the tools included, may ever find a command of this machine beside cat and cp.
func runScript(t *testing.T, tools map[string]string) []string {
	t.Helper()
	for _, path := range []string{"/usr/sbin/qemu-ga", "/usr/bin/qemu-ga"} {
		if _, err := os.Stat(path); err == nil {
			t.Skip("this machine has an agent of its own")
		}
	}
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	write := func(name, body string) {
		if name != "timeout" {
			body = "echo \"" + name + " $*\" >>" + calls + "\n" + body
		}
		script := "#!/bin/sh\nDIR=" + dir + "\nPATH=" + dir + "\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("tool", "")
	for name, body := range tools {
		write(name, body)
	}
	for _, name := range []string{"cat", "cp"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	sh := exec.CommandContext(t.Context(), "/bin/sh")
	sh.Stdin, sh.Env = bytes.NewReader(agentScript), []string{"PATH=" + dir}
	if out, err := sh.CombinedOutput(); err != nil {
		t.Errorf("got %v, want success: %s", err, out)
	}
	b, err := os.ReadFile(calls)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func TestVendorData_multipartWhenExtraProvided(t *testing.T) {
	for start, wantType := range map[string]string{
		"#cloud-config\nruncmd: [a]\r\n":         "text/cloud-config",
		"#!/bin/bash\n" + string([]byte{0, 255}): "text/x-shellscript",
		"#include\nhttp://x":                     "text/x-include-url",
		"## template: jinja\n":                   "text/jinja2",
		"#cloud-boothook\n":                      "text/cloud-boothook",
		"anything":                               "text/plain",
		"":                                       "text/plain",
		strings.Repeat("long line ", 5000):       "text/plain",
	} {
		file := filepath.Join(t.TempDir(), "vendor-data")
		if err := os.WriteFile(file, []byte(start), 0o600); err != nil {
			t.Fatal(err)
		}
		_, files := readISO(t, buildSeed(t, instance.Image{Name: "debian", VendorDataFile: file}, nil))
		types, bodies := readMultipart(t, files["vendor-data"])
		if diff := cmp.Diff([]string{"text/x-shellscript", wantType}, types); diff != "" {
			t.Errorf("types (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{string(agentScript), start}, bodies); diff != "" {
			t.Errorf("bodies (-want +got):\n%s", diff)
		}
	}
}

func readMultipart(tb testing.TB, text string) (types, bodies []string) {
	tb.Helper()
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" {
		tb.Fatalf("got %q, %v, want multipart/mixed", kind, err)
	}
	r := multipart.NewReader(msg.Body, params["boundary"])
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return types, bodies
		}
		if err != nil {
			tb.Fatal(err)
		}
		b, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, part))
		if err != nil {
			tb.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		types, bodies = append(types, kind), append(bodies, string(b))
	}
}

func TestVendorData_badFileIsPermanent(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxVendorDataBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/nonexistent", large, t.TempDir()} {
		k := newKit(t, newMemPool(testHost), &site{})
		_, err := k.cache.Seed(t.Context(), instance.Image{Name: "debian", VendorDataFile: file}, instance.Seed{})
		if got := instance.ReasonOf(err); got != instance.ReasonMisconfigured {
			t.Errorf("%s: got %v, want Misconfigured", file, err)
		}
	}
}
