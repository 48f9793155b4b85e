package libvirtx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"
)

// frame is one with that length, of any size, and that serial.
func frame(length, serial, proc, kind, status uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, length)
	for _, v := range []uint32{programRemote, 1, proc, kind, serial, status} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, body...)
}

const (
	procUndefine = 231 // answered without a body
	procStats    = 344
	statusMore   = 2
)

// whole is a frame as long as it says.
func whole(serial, proc, kind, status uint32, body ...byte) []byte {
	return frame(uint32(frameHeaderBytes+len(body)), serial, proc, kind, status, body)
}

func answerTo(serial uint32) []byte { return whole(serial, procUndefine, typeReply, statusOK) }

// readOnly is a net.Conn over a reader.
type readOnly struct {
	net.Conn
	r io.Reader
}

func (c readOnly) Read(p []byte) (int, error) { return c.r.Read(p) }

// called is a guard over the connection that has sent calls 1 to 3.
func called(conn net.Conn, proc uint32, shut func() error) *guard {
	g := newGuard(conn, shut)
	for serial := range uint32(3) {
		g.sent.note(whole(serial+1, proc, typeCall, statusOK, []byte("arguments")...))
	}
	return g
}

func TestGuard_endsTheConnectionAtABadFrame(t *testing.T) {
	two := append(answerTo(1), whole(2, procUndefine, typeReply, statusError, refusal(38)...)...)
	for name, row := range map[string]struct {
		stream []byte
		bad    bool
		// min is how much must get through.
		min int
	}{
		"frames":                  {two, false, len(two)},
		"largest, cut":            {frame(maxFrameBytes, 1, procUndefine, typeReply, statusOK, []byte("…")), false, 0},
		"below a header":          {append(bytes.Clone(two), frame(27, 3, procUndefine, typeReply, statusOK, nil)...), true, len(two)},
		"zero":                    {frame(0, 1, procUndefine, typeReply, statusOK, nil), true, 0},
		"too large":               {frame(maxFrameBytes+1, 1, procUndefine, typeReply, statusOK, nil), true, 0},
		"text of a remote netcat": {[]byte("nc: unix connect failed: Permission denied\n"), true, 0},
		"HTTP":                    {append(bytes.Clone(two), "HTTP/1.1 400 Bad Request\r\nDate: "...), true, len(two)},
		"error that is cut off":   {append(bytes.Clone(two), whole(3, procUndefine, typeReply, statusError, refusal(38)[:14]...)...), true, len(two)},
		"cut in a length":         {append(bytes.Clone(two), 0, 0), false, len(two)},
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
				g := called(readOnly{r: wrap(bytes.NewReader(row.stream))}, procUndefine, func() error { shut++; return nil })
				got, err := io.ReadAll(readFew{g})
				if _, bad := errors.AsType[*frameError](err); bad != row.bad || !bad && !errors.Is(err, io.EOF) {
					t.Errorf("got %v, want a frame error: %v", err, row.bad)
				}
				if len(got) != row.min {
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

// TestGuard_handsOnWhatWasAskedFor: anything more would lock the library up.
func TestGuard_handsOnWhatWasAskedFor(t *testing.T) {
	upload := func(serial, kind, status uint32, body ...byte) []byte {
		return whole(serial, procVolUpload, kind, status, body...)
	}
	download := func(serial, status uint32, body ...byte) []byte {
		return whole(serial, procVolDownload, typeStream, status, body...)
	}
	downloading := whole(1, procVolDownload, typeReply, statusOK)
	other := answerTo(1)
	binary.BigEndian.PutUint32(other[4:], 0x6b656570)
	for name, row := range map[string]struct {
		proc       uint32
		want, more [][]byte
	}{
		"second answer":           {procUndefine, [][]byte{answerTo(1)}, [][]byte{answerTo(1)}},
		"answer to no call":       {procUndefine, nil, [][]byte{answerTo(9)}},
		"of another procedure":    {procUndefine, nil, [][]byte{whole(1, procHostname, typeReply, statusOK, 0, 0, 0, 0)}},
		"of another program":      {procUndefine, nil, [][]byte{other}},
		"an event":                {procUndefine, nil, [][]byte{whole(1, procUndefine, 2, statusOK)}},
		"a stream that is none":   {procUndefine, nil, [][]byte{whole(1, procUndefine, typeStream, statusMore, 1, 2, 3, 4)}},
		"end of a refused upload": {procVolUpload, [][]byte{upload(1, typeReply, statusError, refusal(1)...)}, [][]byte{upload(1, typeStream, statusOK)}},
		"two ends of an upload": {
			procVolUpload,
			[][]byte{upload(1, typeReply, statusOK), upload(1, typeStream, statusError, refusal(38)...)},
			[][]byte{upload(1, typeStream, statusOK)},
		},
		"a download goes on": {procVolDownload, [][]byte{downloading, download(1, statusMore, 1, 2), download(1, statusMore)}, [][]byte{download(1, statusMore, 3)}},
		"a download ends":    {procVolDownload, [][]byte{downloading, download(1, statusMore, 1, 2), download(1, statusOK)}, [][]byte{download(1, statusMore, 3)}},
	} {
		t.Run(name, func(t *testing.T) {
			// Calls 2 and 3 are still open: the connection goes on.
			last := whole(3, row.proc, typeReply, statusError, refusal(1)...)
			stream := slices.Concat(append(slices.Concat(row.want, row.more), last)...)
			g := called(readOnly{r: bytes.NewReader(stream)}, row.proc, func() error { return nil })
			got, err := io.ReadAll(g)
			if want := slices.Concat(append(row.want, last)...); !bytes.Equal(got, want) || !errors.Is(err, io.EOF) {
				t.Errorf("got %x and %v, want %x and the end", got, err, want)
			}
		})
	}
}

func FuzzGuard(f *testing.F) {
	f.Add(answerTo(1), uint8(3))
	f.Add(whole(1, procStats, typeReply, statusOK, 0x7f, 0xff, 0xff, 0xff), uint8(100))
	f.Add([]byte("nc: permission denied"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		g := called(readOnly{r: bytes.NewReader(stream)}, procStats, func() error { return nil })
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
		// Whatever got through is whole frames, one for a call at most.
		seen := map[uint32]bool{}
		for len(got) > 0 {
			length, h := parseHeader(got)
			if int(length) > len(got) || seen[h.serial] || h.proc != procStats || h.serial < 1 || h.serial > 3 {
				t.Fatalf("%d bytes for %+v got through", length, h)
			}
			seen[h.serial] = true
			got = got[length:]
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
