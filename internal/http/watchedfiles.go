package http

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// settled is how old a file's time stamp must be before an unchanged stamp is
// believed: a file written twice within the clock's grain looks the same.
const settled = 2 * time.Second

// watchedFiles is a value made of files, made again when one of them changes.
// There is nothing to close: files are looked at when the value is asked for.
type watchedFiles[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)
	// fault says in the log what keeps a change from being taken over.
	fault func(error)

	mu     sync.Mutex
	infos  []os.FileInfo
	readAt time.Time
	value  T
	good   bool
	err    error
}

// current is get, and says in the log when a change of the files cannot be taken over.
func (f *watchedFiles[T]) current() (value T, good bool, err error) {
	value, good, fresh, err := f.get()
	if err != nil && fresh {
		f.fault(err)
	}
	return value, good, err
}

// register adds a gauge that looks at the files at each scrape, so that a fault
// shows before anybody asks for the value. A nil reg is none.
func (f *watchedFiles[T]) register(reg prometheus.Registerer, files string) error {
	if reg == nil {
		return nil
	}
	err := reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "kvm2d_files_in_force",
		Help:        "Whether the files, as they are now, are in force; else what was read before is, if anything.",
		ConstLabels: prometheus.Labels{"files": files},
	}, func() float64 {
		if _, _, err := f.current(); err != nil {
			return 0
		}
		return 1
	}))
	if err != nil {
		return fmt.Errorf("register the gauge of %s: %w", files, err)
	}
	return nil
}

// get returns the value. When the files cannot be read or parsed, err says so
// and value is the last good one, if good; fresh is true when they were read anew.
func (f *watchedFiles[T]) get() (value T, good, fresh bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	infos, err := stat(f.paths)
	if err != nil {
		fresh = f.err == nil || f.infos != nil
		f.infos, f.err = nil, err
		return f.value, f.good, fresh, err
	}
	if f.unchanged(infos) {
		return f.value, f.good, false, f.err
	}
	f.infos, f.readAt = infos, time.Now()
	before := f.err
	parsed, err := f.read()
	f.err = err
	if err == nil {
		f.value, f.good = parsed, true
	}
	fresh = err == nil || before == nil || before.Error() != err.Error()
	return f.value, f.good, fresh, f.err
}

func (f *watchedFiles[T]) unchanged(infos []os.FileInfo) bool {
	if f.infos == nil {
		return false
	}
	for i, info := range infos {
		had := f.infos[i]
		if !os.SameFile(had, info) || !had.ModTime().Equal(info.ModTime()) || had.Size() != info.Size() {
			return false
		}
		if f.readAt.Sub(info.ModTime()).Abs() < settled {
			return false
		}
	}
	return true
}

func (f *watchedFiles[T]) read() (T, error) {
	contents := make([][]byte, 0, len(f.paths))
	for _, path := range f.paths {
		b, err := os.ReadFile(path)
		if err != nil {
			var zero T
			return zero, fmt.Errorf("read: %w", err)
		}
		contents = append(contents, b)
	}
	return f.parse(contents)
}

func stat(paths []string) ([]os.FileInfo, error) {
	infos := make([]os.FileInfo, 0, len(paths))
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("look at file: %w", err)
		}
		infos = append(infos, info)
	}
	return infos, nil
}
