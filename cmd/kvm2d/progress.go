package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// pollInterval is how often a command that waits looks again.
const pollInterval = 500 * time.Millisecond

// terminal reports whether w is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress keeps a line on the terminal that tells how long something takes
// and which images are on their way, until the returned function is called. It
// does nothing where the standard error is no terminal.
func (s *session) progress(ctx context.Context, what, host string) (stop func()) {
	if !terminal(s.err) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		for pause(ctx, pollInterval) {
			fmt.Fprintf(s.err, "\r\033[K%s: %v%s", printable(what), time.Since(began).Truncate(time.Second), s.downloads(ctx, host))
		}
	})
	return func() {
		cancel()
		wg.Wait()
		fmt.Fprint(s.err, "\r\033[K")
	}
}

// downloads tells of the images on their way, "" of none.
func (s *session) downloads(ctx context.Context, host string) string {
	list, err := s.images(ctx, host)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, i := range list.Items {
		if i.State == "downloading" {
			fmt.Fprintf(&b, ", image %s on %s: %s", printable(i.Image), printable(i.Host), imageState(i))
		}
	}
	return b.String()
}
