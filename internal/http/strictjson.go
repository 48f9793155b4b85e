package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// checkJSON holds body against what encoding/json forgives: anything after the
// value, duplicate keys (the last would win), and text that is not Unicode (it
// would be replaced silently, and user data must arrive byte for byte). Its
// errors name places, never values.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return invalidf("#", "must be UTF-8; send other bytes as cloudInitBase64")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	var whole json.RawMessage
	if err := dec.Decode(&whole); err != nil {
		return syntaxFault(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return invalidf("#", "must be one JSON value with nothing after it")
	}
	if loneSurrogate(whole) {
		return invalidf("#", `holds a \u escape that is half a character`)
	}
	dec = json.NewDecoder(bytes.NewReader(whole))
	dec.UseNumber()
	if at, dup := duplicateKey(dec, "#"); dup {
		return invalidf(at, "is there twice")
	}
	return nil
}

func syntaxFault(err error) error {
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		return invalidf("#", "is not JSON: fault at byte %d", se.Offset)
	}
	return invalidf("#", "is not JSON: it ends too early")
}

// duplicateKey walks one value and returns the pointer of the first key that an
// object holds twice. The value is known to be well-formed.
func duplicateKey(dec *json.Decoder, pointer string) (string, bool) {
	tok, err := dec.Token()
	if err != nil {
		return "", false
	}
	switch tok {
	case json.Delim('{'):
		seen := map[string]bool{}
		for dec.More() {
			key, _ := dec.Token()
			name, _ := key.(string)
			at := pointer + "/" + pointerEscape(name)
			if seen[name] {
				return at, true
			}
			seen[name] = true
			if found, dup := duplicateKey(dec, at); dup {
				return found, true
			}
		}
	case json.Delim('['):
		for i := 0; dec.More(); i++ {
			if found, dup := duplicateKey(dec, pointer+"/"+strconv.Itoa(i)); dup {
				return found, true
			}
		}
	default:
		return "", false
	}
	_, _ = dec.Token() // the closing bracket
	return "", false
}

// maxPointerBytes bounds a key in a pointer: keys are the caller's text.
const maxPointerBytes = 64

// pointerEscape makes a key a segment of a JSON pointer (RFC 6901).
func pointerEscape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(printable(key, maxPointerBytes))
}

// loneSurrogate finds a \u escape of half a UTF-16 pair in well-formed JSON,
// where a backslash occurs in strings only.
func loneSurrogate(b []byte) bool {
	for i := bytes.IndexByte(b, '\\'); i >= 0 && i+1 < len(b); {
		step := 2
		if b[i+1] == 'u' {
			step = 6
			if first := hexRune(b[i:]); utf16.IsSurrogate(first) {
				if utf16.DecodeRune(first, hexRune(b[i+6:])) == utf8.RuneError {
					return true
				}
				step = 12
			}
		}
		next := bytes.IndexByte(b[i+step:], '\\')
		if next < 0 {
			return false
		}
		i += step + next
	}
	return false
}

// hexRune reads the escape (\u and four digits) that b starts with, 0 when it does not.
func hexRune(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
