package libvirtx

import (
	"strings"
	"unicode"

	libvirt "github.com/digitalocean/go-libvirt"
)

// maxForeignBytes bounds a text that a host sends to be shown.
const maxForeignBytes = 2000

// printable makes a host's text fit for a log line, a problem body and a
// terminal: one line of characters that show, and not too many of them.
func printable(s string) string {
	cut := len(s) > maxForeignBytes
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return -1
		}
	}, strings.ToValidUTF8(s[:min(len(s), maxForeignBytes)], ""))
	if cut {
		s += "…"
	}
	return s
}

// tame makes the text of libvirt's own errors printable. Those of qemu, which
// it quotes, have several lines.
func tame(err error) error {
	if e, ok := err.(libvirt.Error); ok { //nolint:errorlint // The library wraps nothing.
		e.Message = printable(e.Message)
		return e
	}
	return err
}
