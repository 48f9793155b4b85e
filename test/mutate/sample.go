package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// wantKilled is the part of the generated mutants that the tests must notice.
	wantKilled = 0.85
	// abreast is how many mutants are tried at a time: while one's tests wait for
	// a time limit, another is built.
	abreast = 2
)

// sampled are the packages that are mutated by the generator.
var sampled = []string{"internal/instance", "internal/image", "internal/libvirtx"}

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
		ratio, err := samplePackage(ctx, filepath.Join(root, folder), dir, n, seed)
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

// samplePackage tries n mutants of one package and returns the part that was noticed.
func samplePackage(ctx context.Context, folder, dir string, n int, seed uint64) (float64, error) {
	all, err := generate(folder)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	b, err := newBench(ctx, folder, dir)
	if err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	s := &sample{bench: b, queue: all, left: n, count: map[fate]int{}}
	if err := s.tryAll(ctx, dir); errors.Is(err, context.Canceled) {
		fmt.Println("interrupted: the figures are of what was tried until then")
	} else if err != nil {
		return 0, err
	}
	noticed := s.count[killed] + s.count[timedOut]
	tried := noticed + s.count[survived] + s.count[doubtful]
	if tried == 0 {
		return 0, errors.New(folder + " has no mutants")
	}
	ratio := float64(noticed) / float64(tried)
	fmt.Printf("%s: %d of %d mutants in %s, seed %d: %d killed, %d timed out, %d survived, %d doubtful (%d unfit besides): %.1f %%\n",
		filepath.Base(folder), tried, len(all), time.Since(began).Round(time.Second), seed,
		s.count[killed], s.count[timedOut], s.count[survived], s.count[doubtful], s.count[unfit], 100*ratio)
	return ratio, nil
}

// sample is the trying of one package's mutants.
type sample struct {
	*bench

	mu    sync.Mutex
	queue []mutant
	// left is how many are still to be begun.
	left  int
	count map[fate]int
}

// tryAll tries mutants from the queue, some at a time, until enough were tried.
func (s *sample) tryAll(ctx context.Context, dir string) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for range abreast {
		group.Go(func() error { return s.tryInTurn(groupCtx, dir) })
	}
	return group.Wait()
}

func (s *sample) tryInTurn(ctx context.Context, dir string) error {
	own, err := os.MkdirTemp(dir, "mutant")
	if err != nil {
		return err
	}
	for m, ok := s.next(); ok; m, ok = s.next() {
		f, by, err := s.try(ctx, m, own)
		if err != nil {
			return err
		}
		s.note(m, f, by)
	}
	return nil
}

// next takes a mutant to try; false when there are enough.
func (s *sample) next() (mutant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 || len(s.queue) == 0 {
		return mutant{}, false
	}
	m := s.queue[0]
	s.queue = s.queue[1:]
	s.left--
	return m, true
}

// note counts what became of a mutant and prints it.
func (s *sample) note(m mutant, f fate, by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[f]++
	if f == unfit {
		s.left++
		return
	}
	fmt.Println(strings.TrimSpace(fmt.Sprintf("%-9s  %s  %s", f, m, by)))
}
