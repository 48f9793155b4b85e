package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

func TestPrint_formats(t *testing.T) {
	value := struct {
		Name  string            `json:"name"`
		On    string            `json:"on"`
		Count int64             `json:"count"`
		Tags  map[string]string `json:"tags"`
		Items []string          `json:"items"`
	}{"a", "no", 9007199254740993, map[string]string{"k": "1"}, []string{}}
	rows := table{head: []string{"NAME", "TEXT"}, rows: [][]string{{"a", "red\x1b[31m"}, {"b", ""}}}
	for format, want := range map[string]string{
		"json":  "{\n  \"name\": \"a\",\n  \"on\": \"no\",\n  \"count\": 9007199254740993,\n  \"tags\": {\n    \"k\": \"1\"\n  },\n  \"items\": []\n}\n",
		"yaml":  "name: a\n\"on\": \"no\"\ncount: 9007199254740993\ntags:\n  k: \"1\"\nitems: []\n",
		"name":  "a\nb\n",
		"table": "NAME   TEXT\na      red\ufffd[31m\nb      -\n",
	} {
		var out bytes.Buffer
		s := &session{out: &out, format: format}
		fresh := table{head: rows.head}
		for _, r := range rows.rows {
			fresh.rows = append(fresh.rows, append([]string(nil), r...))
		}
		if err := s.print(value, fresh); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestDownloads_tellsWhatIsOnItsWay(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	held := heldMirror{asked: make(chan struct{}, 1), letGo: make(chan struct{})}
	d := startDaemon(t, func(o *appOptions) { o.Backends.downloads = held })
	p, err := client.NewProvider(client.Options{Name: "server", Server: d.api})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{Provider: p}
	if got := s.downloads(t.Context(), ""); got != "" {
		t.Errorf("before: got %q, want nothing", got)
	}
	answer := d.create()
	<-held.asked
	if got, want := s.downloads(t.Context(), "sim-1"), ", image debian-13 on sim-1: downloading"; !strings.HasPrefix(got, want) {
		t.Errorf("during: got %q, want %q", got, want)
	}
	close(held.letGo)
	<-answer
	if err := s.waitForImage(context.WithoutCancel(t.Context()), "debian-13", "sim-1"); err != nil {
		t.Errorf("wait for the image: %v", err)
	}
	s.Close()
	d.client.CloseIdleConnections()
	if err := d.end(); err != nil {
		t.Error(err)
	}
}
