package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// stagePrefix begins the names of the folders in which processes stage seeds.
const stagePrefix = "kvm2d-stage-"

// stage gives this process a folder of its own for temporary files, and removes
// those of processes that died. The library that builds seeds knows no other place
// than the process's folder for temporary files, and finds that in TMPDIR. The
// folder is locked for as long as the process lives: pids tell nothing in containers.
func stage(log *slog.Logger) (clean func(), err error) {
	base := os.TempDir()
	removeDeadStages(base, log)
	dir, lock, err := lockedStage(base)
	if err != nil {
		return nil, fmt.Errorf("no place to build seeds in: %w", err)
	}
	before, had := os.LookupEnv("TMPDIR")
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return nil, errors.Join(err, lock.Close(), os.RemoveAll(dir))
	}
	return func() {
		if had {
			_ = os.Setenv("TMPDIR", before)
		} else {
			_ = os.Unsetenv("TMPDIR")
		}
		if err := errors.Join(os.RemoveAll(dir), lock.Close()); err != nil {
			log.Warn("the folder for temporary files was not removed", "error", err)
		}
	}, nil
}

// lockedStage makes a folder and locks it. Another process that starts may take a
// folder for a dead one's before it is locked; then another is made.
func lockedStage(base string) (dir string, lock *os.File, err error) {
	const tries = 10
	for range tries {
		if dir, err = os.MkdirTemp(base, stagePrefix); err != nil {
			return "", nil, err
		}
		if lock, err = lockFolder(dir); err != nil {
			continue
		}
		if _, err = os.Stat(dir); err == nil {
			return dir, lock, nil
		}
		_ = lock.Close()
	}
	return "", nil, err
}

// lockFolder locks a folder until the file is closed or the process ends. It
// fails when somebody else has the lock.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// removeDeadStages removes the folders that nobody has locked. What cannot be
// removed is another user's.
func removeDeadStages(base string, log *slog.Logger) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return // whoever makes a folder here next will say why
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), stagePrefix) {
			continue
		}
		dir := filepath.Join(base, e.Name())
		lock, err := lockFolder(dir)
		if err != nil {
			continue
		}
		if err := os.RemoveAll(dir); err == nil {
			log.Info("removed what a dead process had staged", "folder", dir)
		}
		_ = lock.Close()
	}
}
