package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLifecycle_reverseOrderWhateverFails(t *testing.T) {
	l := &lifecycle{log: slog.New(slog.DiscardHandler)}
	broken := errors.New("broken")
	var got []string
	for _, name := range []string{"first", "second", "third"} {
		l.onStop(name, func(context.Context) error {
			got = append(got, name)
			if name == "second" {
				return broken
			}
			return nil
		})
	}
	err := l.stop(t.Context(), time.Second)
	if diff := cmp.Diff([]string{"third", "second", "first"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if !errors.Is(err, broken) || err.Error() != "stop second: broken" {
		t.Errorf("got %v, want stop second: broken", err)
	}
	if err := l.stop(t.Context(), time.Second); err != nil || len(got) != 3 {
		t.Errorf("a second stop: got %v after %d clean-ups, want nothing to happen", err, len(got))
	}
}

func TestLifecycle_oneGraceForAllThenHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lifecycle{log: slog.New(slog.DiscardHandler)}
		var ended []time.Duration
		began := time.Now()
		wait := func(ctx context.Context) error {
			<-ctx.Done()
			ended = append(ended, time.Since(began))
			return nil
		}
		l.onStop("a", hurried(wait))
		l.onStop("b", wait)
		if err := l.stop(t.Context(), 5*time.Second); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]time.Duration{5 * time.Second, 5*time.Second + hurry}, ended); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
	})
}
