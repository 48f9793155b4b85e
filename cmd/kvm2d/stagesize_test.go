package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/image"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// volumeEnv names the size of the volume, as mount takes it, to the process that
// builds seeds in one.
const volumeEnv = "KVM2D_TEST_VOLUME"

// TestStage_largestSeedsFitTheVolume builds the largest seeds that the configuration
// allows, as many at a time as the daemon does, in a /tmp as the chart makes it.
func TestStage_largestSeedsFitTheVolume(t *testing.T) {
	if size := os.Getenv(volumeEnv); size != "" {
		buildInVolume(t, size)
		return
	}
	var values struct {
		Tmp struct {
			SizeLimit string `yaml:"sizeLimit"`
		}
	}
	readYAML(t, "../../deploy/helm/kvm2d/values.yaml", &values)
	mebibytes, ok := strings.CutSuffix(values.Tmp.SizeLimit, "Mi")
	if !ok {
		t.Fatalf("the chart's tmp.sizeLimit is %q, want Mi", values.Tmp.SizeLimit)
	}
	// The volume is mounted where only this child sees it.
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), volumeEnv+"="+mebibytes+"m")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this machine lets nobody but root mount anything")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// buildInVolume is the child. It notes how full the volume was.
func buildInVolume(t *testing.T, size string) {
	t.Helper()
	vendor := filepath.Join(t.TempDir(), "vendor")
	if err := os.WriteFile(vendor, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	// What is mounted here stays here.
	if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	volume := t.TempDir()
	if err := syscall.Mount("tmpfs", volume, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(volume, 0); err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("TMPDIR", volume)
	clean, err := stage(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer clean()
	cache, err := image.New(image.Options{
		Pool: func(string) (image.Pool, bool) { return nil, false }, Log: slog.New(slog.DiscardHandler),
		Tracer: noop.NewTracerProvider().Tracer(""), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	seed := instance.Seed{UserData: make([]byte, largestBody(t)), InstanceID: "0", Hostname: "a"}
	var builders sync.WaitGroup
	for range 6 {
		builders.Go(func() {
			if _, err := cache.Seed(t.Context(), instance.Image{VendorDataFile: vendor}, seed); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { builders.Wait(); close(done) }()
	most := fullest(volume, done)
	t.Logf("%d MiB of %s were in use", most>>20, size)
	if most < 2*len(seed.UserData) {
		t.Errorf("%d bytes were in use: no two seeds were built at a time", most)
	}
}

// fullest looks at a volume until done, and returns the most bytes that were in use.
func fullest(volume string, done <-chan struct{}) (most int) {
	for {
		var s syscall.Statfs_t
		if syscall.Statfs(volume, &s) == nil {
			most = max(most, int(s.Blocks-s.Bfree)*int(s.Bsize))
		}
		select {
		case <-done:
			return most
		default:
		}
	}
}

// largestBody is the largest request body that a configuration may allow, in bytes:
// user data cannot be larger.
func largestBody(t *testing.T) int {
	t.Helper()
	largest := 0
	for mebibytes := 1; ; mebibytes++ {
		text := fmt.Sprintf("limits: {requestBodyMiB: %d}\nkvm2: {hosts: [{name: a, uri: 'qemu:///system', network: b}]}\n", mebibytes)
		if _, _, err := config.Parse("", []byte(text)); err != nil {
			break
		}
		largest = mebibytes
	}
	if largest == 0 {
		t.Fatal("no size is allowed")
	}
	return largest << 20
}
