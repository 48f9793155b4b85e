package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestStage_removesOnlyWhatDeadProcessesLeft(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	for _, dir := range []string{stagePrefix + "dead/123", stagePrefix + "alive/456", "other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	alive, err := lockFolder(filepath.Join(base, stagePrefix+"alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alive.Close() }()

	clean, err := stage(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{stagePrefix + "alive", filepath.Base(os.TempDir()), "other"}
	slices.Sort(want)
	if got := entries(t, base); !slices.Equal(got, want) {
		t.Errorf("while it runs: got %v, want %v", got, want)
	}
	// Another one that starts leaves ours alone.
	removeDeadStages(base, slog.New(slog.DiscardHandler))
	if _, err := os.Stat(os.TempDir()); err != nil {
		t.Errorf("the folder for temporary files is gone: %v", err)
	}
	clean()
	if got, want := entries(t, base), []string{stagePrefix + "alive", "other"}; !slices.Equal(got, want) {
		t.Errorf("after the end: got %v, want %v", got, want)
	}
	if got := os.TempDir(); got != base {
		t.Errorf("TMPDIR after the end: got %s, want %s", got, base)
	}
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(found))
	for i, e := range found {
		names[i] = e.Name()
	}
	slices.Sort(names)
	return names
}

func TestStage_saysWhenThereIsNoPlace(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent"))
	if _, err := stage(slog.New(slog.DiscardHandler)); err == nil {
		t.Error("got no error")
	}
}
