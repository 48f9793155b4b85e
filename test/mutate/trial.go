package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// limitFloor is the least that a mutant's tests may take; see newBench.
const limitFloor = 20 * time.Second

// fate is what became of a mutant.
type fate string

const (
	// killed: a test failed.
	killed fate = "killed"
	// timedOut: the tests did not end, which is noticed as well.
	timedOut fate = "timed out"
	// doubtful: the tests did not end, nor did those of the unbroken package soon
	// enough to say that the mutant was why. It counts as not noticed.
	doubtful fate = "doubtful"
	survived fate = "survived"
	// unfit: the compiler refuses it; another is drawn in its place.
	unfit fate = "unfit"
)

// bench is where one package's mutants are tried.
type bench struct {
	folder string
	// sound is the test binary of the unbroken package.
	sound string
	// limit is how long the tests may take with a mutant in the package.
	limit time.Duration
}

// newBench builds the unbroken package's tests into dir and runs them: they
// must be green, and how long they take here sets the limit.
func newBench(ctx context.Context, folder, dir string) (*bench, error) {
	b := &bench{folder: folder, sound: filepath.Join(dir, filepath.Base(folder)+".test"), limit: 5 * time.Minute}
	if out, err := b.build(ctx, b.sound).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests of %s: %w\n%s", folder, err, out)
	}
	began := time.Now()
	if f, by := b.run(ctx, b.sound); f != survived {
		return nil, fmt.Errorf("the tests of %s fail without a mutant: %s %s", folder, f, by)
	}
	b.limit = limitFloor + 4*time.Since(began)
	return b, nil
}

// try builds the package's tests with the mutant in it and runs the short ones.
// dir is for this mutant alone. by is the first test that failed.
func (b *bench) try(ctx context.Context, m mutant, dir string) (f fate, by string, err error) {
	content, err := m.apply()
	if err != nil {
		return "", "", err
	}
	overlay, err := writeOverlay(dir, m.file, content)
	if err != nil {
		return "", "", err
	}
	binary := filepath.Join(dir, "mutant.test")
	if b.build(ctx, binary, "-overlay", overlay).Run() != nil {
		return unfit, "", ctx.Err()
	}
	f, by = b.run(ctx, binary)
	if f == timedOut && !b.quick(ctx) {
		f = doubtful
	}
	return f, by, ctx.Err()
}

// quick reports whether the unbroken package's tests end well within the limit
// at this moment: then it is not the machine that is slow.
func (b *bench) quick(ctx context.Context) bool {
	began := time.Now()
	f, _ := b.run(ctx, b.sound)
	return f == survived && time.Since(began) < b.limit/2
}

func (b *bench) build(ctx context.Context, binary string, more ...string) *exec.Cmd {
	args := append([]string{"test", "-C", b.folder, "-c", "-o", binary, "-vet=off", "-ldflags=-s -w"}, more...)
	return exec.CommandContext(ctx, "go", append(args, ".")...)
}

// run runs the short tests until the first fails, and ends what they leave
// behind: a test binary that is killed has not ended its own servers.
func (b *bench) run(ctx context.Context, binary string) (f fate, by string) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, "-test.short", "-test.failfast")
	cmd.Dir, cmd.Stdout, cmd.WaitDelay = b.folder, &out, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // most often none is left
	}
	switch {
	case ctx.Err() != nil:
		return timedOut, ""
	case err != nil:
		return killed, firstFailed(out.String())
	}
	return survived, ""
}

// firstFailed finds the name of the first test that failed in a test binary's output.
func firstFailed(out string) string {
	if _, after, ok := strings.Cut(out, "--- FAIL: "); ok {
		name, _, _ := strings.Cut(after, " ")
		return name
	}
	return "a crash, or what was left running"
}

// writeOverlay has the compiler read content in place of file.
func writeOverlay(dir, file string, content []byte) (overlay string, err error) {
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, content, 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
