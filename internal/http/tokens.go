package http

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

var callerNameRE = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// namedToken keeps a token's hash, so that all comparisons take the same time
// whatever its length, and the token itself stays out of memory.
type namedToken struct {
	Principal
	sum [sha256.Size]byte
}

// TokenFile knows the callers of a file with one "name role token" a line;
// empty lines and lines that start with # are skipped. The file is read again
// when it changes. A faulty new content is reported and the old one stays; a
// file that is gone lets nobody in.
type TokenFile struct {
	file *watchedFiles[[]namedToken]
	path string
}

// NewTokenFile returns the authenticator; the file is first read when asked for.
func NewTokenFile(path string, log *slog.Logger) *TokenFile {
	return &TokenFile{path: path, file: &watchedFiles[[]namedToken]{
		paths: []string{path},
		fault: func(err error) { log.Warn("token file not taken over", "path", path, "error", err) },
		parse: func(c [][]byte) ([]namedToken, error) { return parseTokens(c[0]) },
	}}
}

// Register adds a gauge that tells whether the file is in force.
func (t *TokenFile) Register(reg prometheus.Registerer) error { return t.file.register(reg, "tokens") }

// Check reads the file now and returns what is wrong with it; never a token.
func (t *TokenFile) Check() error {
	if _, _, err := t.file.current(); err != nil {
		return fmt.Errorf("token file %s: %w", t.path, err)
	}
	return nil
}

// Authenticate compares the token with every one in the file, in constant time.
func (t *TokenFile) Authenticate(_ context.Context, c Credentials) (Principal, bool, error) {
	tokens, good, err := t.file.current()
	if c.Token == "" {
		return Principal{}, false, nil
	}
	var pathErr *fs.PathError
	if err != nil && (!good || errors.As(err, &pathErr)) {
		return Principal{}, false, instance.Errorf(instance.ReasonCredentialsUnavailable, "the service's token file cannot be read now")
	}
	sum := sha256.Sum256([]byte(c.Token))
	found := -1
	for i := range tokens {
		if subtle.ConstantTimeCompare(tokens[i].sum[:], sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Principal{}, false, nil
	}
	return tokens[found].Principal, true, nil
}

func parseTokens(content []byte) ([]namedToken, error) {
	var (
		tokens []namedToken
		errs   []error
		names  = map[string]bool{}
	)
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		tok, err := parseTokenLine(text)
		if err == nil && names[tok.Name] {
			err = fmt.Errorf("the name %s is there twice", tok.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		names[tok.Name] = true
		tokens = append(tokens, tok)
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, err)
	}
	return tokens, errors.Join(errs...)
}

// parseTokenLine never repeats what it read: a misplaced column may be a token.
func parseTokenLine(text string) (namedToken, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return namedToken{}, fmt.Errorf("want name, role and token, got %d words", len(fields))
	}
	p := Principal{Name: fields[0], Role: Role(fields[1])}
	if !callerNameRE.MatchString(p.Name) || p.Name == anonymousName {
		return namedToken{}, errors.New("the name must be 1 to 64 of A-Z a-z 0-9 . _ - and not anonymous")
	}
	if !p.Role.Valid() {
		return namedToken{}, fmt.Errorf("the role of %s must be %s or %s", p.Name, RoleFull, RoleRead)
	}
	return namedToken{Principal: p, sum: sha256.Sum256([]byte(fields[2]))}, nil
}
