//go:build lab

package imagefaults_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// fault is one way in which things go wrong.
type fault struct {
	name string
	// serve answers a request with the fault, and tells whether it could hit.
	serve func(a *exchange) outcome
}

// mirrorFaults are those of the mirror alone.
var mirrorFaults = []fault{
	{"connection closed", func(a *exchange) outcome { return outcome{hit: a.sendToStrike(), cut: true} }},
	{"connection reset", reset},
	{"stall in the body", func(a *exchange) outcome { return outcome{hit: a.sendToStrike() && a.hang(), cut: true} }},
	{"no answer", func(a *exchange) outcome { return outcome{hit: a.hang(), cut: true} }},
	{"drip", drip},
	{"changed ETag", changedETag},
	{"changed content", changedContent},
	{"ignored Range", ignoredRange},
	{"wrong range", wrongRange},
	{"length too long", lengthTooLong},
	{"length too short", lengthTooShort},
	{"no length", noLength},
	{"redirect", redirect("/moved/")},
	{"redirect loop", redirect("/loop/")},
	{"gzip encoding", gzipEncoding},
	{"HTML", html},
	{"503", func(a *exchange) outcome { return status(a, http.StatusServiceUnavailable) }},
	{"404", func(a *exchange) outcome { return status(a, http.StatusNotFound) }},
	{"endless header", endlessHeader},
}

// deed is a fault of something else than the mirror, done in mid-download.
func deed(name string) fault {
	return fault{name, func(a *exchange) outcome {
		at := a.strikeAt()
		if !a.sendToStrike() {
			return outcome{cut: true}
		}
		a.act()
		a.from = at
		return outcome{hit: true, cut: !a.send(a.file, a.file.size)}
	}}
}

func healthy(a *exchange) outcome {
	a.head(a.file.size)
	return outcome{cut: !a.send(a.file, a.file.size)}
}

// reset ends the connection with a TCP reset instead of an orderly close.
func reset(a *exchange) outcome {
	hit := a.sendToStrike()
	conn, _, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err != nil {
		return outcome{cut: true}
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
	return outcome{hit: hit}
}

// drip never stalls and never ends.
func drip(a *exchange) outcome {
	a.head(a.file.size)
	src, begun := io.NewSectionReader(a.file, a.from, a.file.size), time.Now()
	for {
		if _, err := io.CopyN(a, src, kib); err != nil {
			return outcome{cut: true}
		}
		_ = http.NewResponseController(a.ResponseWriter).Flush()
		select {
		case <-a.r.Context().Done():
			return outcome{hit: time.Since(begun) > transferLimit/2, cut: true}
		case <-time.After(stallLimit / 4):
		}
	}
}

// changedETag cuts the answer, and what is left is of another version then.
func changedETag(a *exchange) outcome {
	hit := a.sendToStrike()
	if hit {
		a.m.mu.Lock()
		a.file.version++
		a.m.mu.Unlock()
	}
	return outcome{hit: hit, cut: true}
}

// changedContent has the right length and head.
func changedContent(a *exchange) outcome {
	content := make([]byte, a.file.size)
	if _, err := a.file.ReadAt(content, 0); err != nil {
		return outcome{cut: true}
	}
	content[a.file.size/2] ^= 1
	a.from = 0
	a.head(a.file.size)
	return outcome{hit: a.send(bytes.NewReader(content), a.file.size)}
}

// ignoredRange sends all to who asks for the rest.
func ignoredRange(a *exchange) outcome {
	if !a.ranged() {
		a.sendToStrike()
		return outcome{cut: true}
	}
	a.from = 0
	return outcome{hit: true, cut: healthy(a).cut}
}

// wrongRange sends another part than was asked for.
func wrongRange(a *exchange) outcome {
	if !a.ranged() {
		a.sendToStrike()
		return outcome{cut: true}
	}
	a.from--
	return outcome{hit: true, cut: healthy(a).cut}
}

// lengthTooLong promises more than there is.
func lengthTooLong(a *exchange) outcome {
	a.head(a.file.size + 1000)
	return outcome{hit: a.send(a.file, a.file.size), cut: true}
}

// lengthTooShort promises, and sends, less than there is.
func lengthTooShort(a *exchange) outcome {
	a.from = 0
	a.head(a.file.size - 1000)
	return outcome{hit: a.send(a.file, a.file.size-1000)}
}

// noLength is what a mirror does that makes its answer up as it goes.
func noLength(a *exchange) outcome {
	a.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(a.ResponseWriter).Flush()
	a.from = 0
	a.send(a.file, headRoom)
	return outcome{hit: true, cut: true}
}

func redirect(to string) func(*exchange) outcome {
	return func(a *exchange) outcome {
		a.Header().Set("Location", to+a.file.name)
		return status(a, http.StatusFound)
	}
}

func status(a *exchange, code int) outcome {
	a.WriteHeader(code)
	return outcome{hit: true}
}

// gzipEncoding encodes although identity was asked for.
func gzipEncoding(a *exchange) outcome {
	var encoded bytes.Buffer
	w := gzip.NewWriter(&encoded)
	_, _ = w.Write([]byte(strings.Repeat("not what was asked for", 1000))) // memory takes all
	_ = w.Close()
	a.Header().Set("Content-Encoding", "gzip")
	a.Header().Set("Content-Length", strconv.Itoa(encoded.Len()))
	_, _ = a.Write(encoded.Bytes())
	return outcome{hit: true}
}

// html is a portal that answers for everybody. It is no hit where it is only taken
// for the rest of a disk; then it ends in a wrong checksum.
func html(a *exchange) outcome {
	page := "<!DOCTYPE html><html><title>Sign in</title>" + strings.Repeat("<p>please", 2000) + "</html>"
	a.Header().Set("Content-Type", "text/html")
	a.Header().Set("Content-Length", strconv.Itoa(len(page)))
	_, err := a.Write([]byte(page))
	return outcome{hit: err == nil && !a.ranged()}
}

// endlessHeader sends header lines for as long as they are taken.
func endlessHeader(a *exchange) outcome {
	conn, buf, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err != nil {
		return outcome{cut: true}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	w := bufio.NewWriter(buf)
	_, _ = fmt.Fprint(w, "HTTP/1.1 200 OK\r\n")
	for i := 0; ; i++ {
		if _, err := fmt.Fprintf(w, "X-Junk-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
			break
		}
	}
	return outcome{hit: true}
}
