package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// mutantLimit is how long a package's short tests may take with a mutant in it.
	mutantLimit = 2 * time.Minute
	// wantKilled is the part of the generated mutants that the tests must notice.
	wantKilled = 0.85
)

// sampled are the packages that are mutated by the generator.
var sampled = []string{"internal/instance", "internal/image", "internal/libvirtx"}

// fate is what became of a mutant.
type fate string

const (
	// killed: a test failed.
	killed fate = "killed"
	// timedOut: the tests did not end, which is noticed as well.
	timedOut fate = "timed out"
	survived fate = "survived"
	// unfit: the compiler refuses it; another is drawn in its place.
	unfit fate = "unfit"
)

// sampleAll tries n generated mutants of each package whose folder contains only,
// drawn by seed, and fails when too few are noticed.
func sampleAll(ctx context.Context, root, only string, n int, seed uint64) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kvm2d-mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var low []string
	for _, folder := range sampled {
		if !strings.Contains(folder, only) {
			continue
		}
		ratio, err := sample(ctx, filepath.Join(root, folder), dir, n, seed)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if ratio < wantKilled {
			low = append(low, fmt.Sprintf("%s: %.1f %%", folder, 100*ratio))
		}
	}
	if low != nil {
		return fmt.Errorf("below %.0f %%: %s", 100*wantKilled, strings.Join(low, ", "))
	}
	return nil
}

// sample tries n mutants of one package and returns the part that was noticed.
func sample(ctx context.Context, folder, dir string, n int, seed uint64) (float64, error) {
	all, err := generate(folder)
	if err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	began, count, tried := time.Now(), map[fate]int{}, 0
	for _, m := range all {
		if tried == n {
			break
		}
		f, err := m.try(ctx, folder, dir)
		if ctx.Err() != nil {
			fmt.Println("interrupted: the figures are of what was tried until then")
			break
		}
		if err != nil {
			return 0, err
		}
		count[f]++
		if f == unfit {
			continue
		}
		tried++
		if f == survived {
			fmt.Printf("survived  %s\n", m)
		}
	}
	if tried == 0 {
		return 0, errors.New(folder + " has no mutants")
	}
	ratio := float64(count[killed]+count[timedOut]) / float64(tried)
	fmt.Printf("%s: %d of %d mutants in %s, seed %d: %d killed, %d timed out, %d survived (%d unfit besides): %.1f %%\n",
		filepath.Base(folder), tried, len(all), time.Since(began).Round(time.Second), seed,
		count[killed], count[timedOut], count[survived], count[unfit], 100*ratio)
	return ratio, nil
}

// try builds the package's tests with the mutant in it and runs the short ones.
func (m mutant) try(ctx context.Context, folder, dir string) (fate, error) {
	content, err := m.apply()
	if err != nil {
		return "", err
	}
	overlay, err := writeOverlay(dir, m.file, content)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "mutant.test")
	_ = os.Remove(binary)
	build := exec.CommandContext(ctx, "go", "test", "-C", folder, "-c", "-o", binary, "-overlay", overlay, "-vet=off", "-ldflags=-s -w", ".")
	if build.Run() != nil {
		return unfit, ctx.Err()
	}
	within, cancel := context.WithTimeout(ctx, mutantLimit)
	defer cancel()
	run := exec.CommandContext(within, binary, "-test.short", "-test.failfast")
	run.Dir = folder
	switch err := run.Run(); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case within.Err() != nil:
		return timedOut, nil
	case err != nil:
		return killed, nil
	}
	return survived, nil
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
