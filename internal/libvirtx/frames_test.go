package libvirtx

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnswers_kindsThatAreSkippedRight: what an answer is made of is one of
// those kinds that skip knows the size of.
func TestAnswers_kindsThatAreSkippedRight(t *testing.T) {
	var look func(at string, shape reflect.Type)
	look = func(at string, shape reflect.Type) {
		switch shape.Kind() {
		case reflect.Struct:
			if shape == typedParam {
				return
			}
			for f := range shape.Fields() {
				look(at+"."+f.Name, f.Type)
			}
		case reflect.Slice:
			if shape.Elem().Kind() == reflect.Uint8 {
				t.Errorf("%s: bytes are packed, unlike other values", at)
			}
			look(at+"[]", shape.Elem())
		case reflect.Array:
			if shape.Elem().Kind() != reflect.Uint8 {
				t.Errorf("%s: an array of %s", at, shape.Elem())
			}
		case reflect.String, reflect.Uint8, reflect.Int32, reflect.Uint32, reflect.Int64, reflect.Uint64:
		default:
			t.Errorf("%s: %s", at, shape)
		}
	}
	for _, shape := range answers {
		look(shape.Name(), shape)
	}
}

// TestAnswers_ofEveryProcedure: those that are not listed have no body.
func TestAnswers_ofEveryProcedure(t *testing.T) {
	bodiless := map[string]bool{
		"DomainDestroy": true, "DomainUndefine": true, "DomainSetAutostart": true, "DomainSetMetadata": true,
		"StoragePoolRefresh": true, "StorageVolDelete": true, "StorageVolUpload": true, "StorageVolDownload": true,
	}
	for name, proc := range procedures {
		if _, listed := answers[proc]; listed == bodiless[name] {
			t.Errorf("%s: listed: %v", name, listed)
		}
	}
}

// TestFrames_dataBeforeTheAnswer: libvirtd answers a download from one thread and
// sends its data from another; what comes first waits for the answer.
func TestFrames_dataBeforeTheAnswer(t *testing.T) {
	of := func(serial, kind, status uint32, body string) []byte {
		return whole(serial, procVolDownload, kind, status, []byte(body)...)
	}
	data, end := of(7, typeStream, statusMore, "data"), of(7, typeStream, statusMore, "")
	answer, refused := of(7, typeReply, statusOK, ""), whole(7, procVolDownload, typeReply, statusError, refusal(38)...)
	stranger := of(8, typeStream, statusMore, "nobody's")
	for _, tt := range []struct {
		name       string
		come, want [][]byte
	}{
		{"in order", [][]byte{answer, data, end}, [][]byte{answer, data, end}},
		{"data first", [][]byte{data, stranger, answer, data, end}, [][]byte{answer, data, data, end}},
		{"all of it first", [][]byte{data, end, answer}, [][]byte{answer, data, end}},
		{"more behind the end", [][]byte{data, end, data, answer, data}, [][]byte{answer, data, end}},
		{"refused after all", [][]byte{data, refused, data}, [][]byte{refused}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := &callBook{}
			calls.called(7, procVolDownload)
			r := &frameReader{src: bufio.NewReader(bytes.NewReader(slices.Concat(tt.come...))), calls: calls}
			var got [][]byte
			for {
				f, err := r.next()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Fatal(err)
					}
					break
				}
				got = append(got, bytes.Clone(f))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
			if r.earlyBytes != 0 {
				t.Errorf("got %d bytes held, want none", r.earlyBytes)
			}
		})
	}
}

// TestFrames_earlyDataIsBounded: a host that never answers does not fill our memory.
func TestFrames_earlyDataIsBounded(t *testing.T) {
	calls := &callBook{}
	calls.called(7, procVolDownload)
	data := whole(7, procVolDownload, typeStream, statusMore, make([]byte, 1<<20)...)
	r := &frameReader{src: bufio.NewReader(bytes.NewReader(bytes.Repeat(data, 5))), calls: calls}
	if _, err := r.next(); !as[*frameError](err) {
		t.Errorf("got %v, want the connection to end", err)
	}
}

// TestFrames_answerBeforeItsCall: a call that is made while the body of its
// forged answer is passed over does not get what is left of that answer.
func TestFrames_answerBeforeItsCall(t *testing.T) {
	calls := &callBook{}
	forged := whole(7, procStats, typeReply, statusOK, make([]byte, 100)...)
	called := readerFunc(func([]byte) (int, error) {
		calls.called(7, procStats)
		return 0, io.EOF
	})
	src := io.MultiReader(bytes.NewReader(forged[:frameHeaderBytes]), called, bytes.NewReader(forged[frameHeaderBytes:]))
	r := &frameReader{src: bufio.NewReader(src), calls: calls}
	if f, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %x, %v, want nothing to get through", f, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
