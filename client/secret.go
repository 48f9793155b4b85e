package client

import (
	"fmt"
	"log/slog"
)

// Secret is bytes that must not be printed: every formatting verb and slog show
// only their length.
type Secret []byte

// String shows the length only.
func (s Secret) String() string { return fmt.Sprintf("[secret of %d bytes]", len(s)) }

// Format keeps every verb from the bytes.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue keeps slog from the bytes.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps encoders from the bytes.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
