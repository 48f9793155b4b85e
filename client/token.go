package client

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// rotationGrace is how long after a change of the token file a 401 is taken for
// a rotation that the service has not seen yet.
const rotationGrace = 2 * time.Minute

// tokenFile reads a token at each use and remembers when it changed.
type tokenFile struct {
	path string

	mu        sync.Mutex
	last      string
	changedAt time.Time
}

// read returns the token. Its errors hold nothing of the content.
func (f *tokenFile) read() (string, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return "", fmt.Errorf("look at token file: %w", err)
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", errors.New("the token file does not hold one token")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if info.ModTime().After(f.changedAt) {
		f.changedAt = info.ModTime()
	}
	if f.last != "" && f.last != token {
		f.changedAt = time.Now() // also when an older file was moved into place
	}
	f.last = token
	return token, nil
}

// changedLately reports whether the file changed within the grace.
func (f *tokenFile) changedLately() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.changedAt) < rotationGrace
}
