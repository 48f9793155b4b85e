package libvirtx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

func frame(length uint32, proc, kind uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, length)
	for _, v := range []uint32{programRemote, 1, proc, kind, 7, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, body...)
}

func good(body []byte) []byte { return frame(uint32(frameHeaderBytes+len(body)), 157, typeReply, body) }

// readOnly is a net.Conn over a reader.
type readOnly struct {
	net.Conn
	r io.Reader
}

func (c readOnly) Read(p []byte) (int, error) { return c.r.Read(p) }

func TestGuard_endsTheConnectionAtABadFrame(t *testing.T) {
	two := append(good(nil), good([]byte("body"))...)
	for name, row := range map[string]struct {
		stream []byte
		bad    bool
		// min is how much must get through, at most 3 bytes of a bad length may.
		min int
	}{
		"frames":                  {two, false, len(two)},
		"largest":                 {frame(maxFrameBytes, 157, typeReply, []byte("…")), false, 31},
		"below a header":          {append(bytes.Clone(two), frame(27, 157, typeReply, nil)...), true, len(two)},
		"zero":                    {frame(0, 157, typeReply, nil), true, 0},
		"too large":               {frame(maxFrameBytes+1, 157, typeReply, nil), true, 0},
		"text of a remote netcat": {[]byte("nc: unix connect failed: Permission denied\n"), true, 0},
		"HTTP":                    {append(bytes.Clone(two), "HTTP/1.1 400 Bad Request"...), true, len(two)},
		"cut in a length":         {append(bytes.Clone(two), 0, 0), false, len(two) + 2},
		"nothing":                 {nil, false, 0},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r },
			"bytes": iotest.OneByteReader,
			"half":  iotest.HalfReader,
			"eof":   iotest.DataErrReader,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				shut := 0
				g := newGuard(readOnly{r: wrap(bytes.NewReader(row.stream))}, func() error { shut++; return nil })
				got, err := io.ReadAll(readFew{g})
				if _, bad := errors.AsType[*frameError](err); bad != row.bad || !bad && !errors.Is(err, io.EOF) {
					t.Errorf("got %v, want a frame error: %v", err, row.bad)
				}
				if len(got) < row.min || len(got) > row.min+3 && row.bad {
					t.Errorf("%d bytes got through, want %d", len(got), row.min)
				}
				if !bytes.HasPrefix(row.stream, got) {
					t.Error("what got through is not what came")
				}
				if shut != 1 {
					t.Errorf("shut %d times, want once", shut)
				}
				select {
				case <-g.done:
				default:
					t.Error("done is open")
				}
			})
		}
	}
}

// readFew reads with the small buffer of the library.
type readFew struct{ io.Reader }

func (r readFew) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 40)]) }

func FuzzGuard(f *testing.F) {
	f.Add(good([]byte("body")), uint8(3))
	f.Add([]byte("nc: permission denied"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		g := newGuard(readOnly{r: bytes.NewReader(stream)}, func() error { return nil })
		g.finishOpening()
		buf := make([]byte, int(step)+1)
		var got []byte
		for {
			n, err := g.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				break
			}
		}
		if !bytes.HasPrefix(stream, got) {
			t.Fatal("what got through is not what came")
		}
		// Whatever got through holds no whole length that a frame cannot have.
		for len(got) >= 4 {
			n := binary.BigEndian.Uint32(got)
			if n < frameHeaderBytes || n > maxFrameBytes {
				t.Fatalf("a frame of %d bytes got through", n)
			}
			got = got[min(int(n), len(got)):]
		}
	})
}

func TestGuard_writeErrorEndsTheConnection(t *testing.T) {
	a, b := net.Pipe()
	_ = b.Close()
	g := newGuard(a, a.Close)
	if _, err := g.Write([]byte("x")); err == nil {
		t.Error("no error")
	}
	<-g.done
}
