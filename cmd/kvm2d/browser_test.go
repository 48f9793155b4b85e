package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a Chromium without a window, driven over its DevTools protocol
// through a pair of pipes.
type browser struct {
	t  *testing.T
	in *os.File

	mu      sync.Mutex
	lastID  int
	waiting map[int]chan message
	// asked are the URLs that pages asked for, faults what they complained about.
	asked, faults []string
}

// message is one of the protocol, in either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// startBrowser starts the Chromium at path; it ends with the test.
func startBrowser(t *testing.T, path string) *browser {
	t.Helper()
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = toBrowser.Close(), fromBrowser.Close()
	b := &browser{t: t, in: in, waiting: map[int]chan message{}}
	var reader sync.WaitGroup
	reader.Go(func() { b.read(out) })
	t.Cleanup(func() {
		_ = b.in.Close() // it ends by itself when nobody drives it
		ended := time.AfterFunc(10*time.Second, cancel)
		_ = cmd.Wait()
		ended.Stop()
		cancel()
		_ = out.Close()
		reader.Wait()
	})
	return b
}

// read takes what the browser says until it ends.
func (b *browser) read(out *os.File) {
	r := bufio.NewReader(out)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if answer, ok := b.waiting[m.ID]; ok {
			delete(b.waiting, m.ID)
			answer <- m
		}
		b.note(m)
		b.mu.Unlock()
	}
}

// note keeps what a test looks at later; b.mu is held.
func (b *browser) note(m message) {
	var p struct {
		Request struct{ URL string }
		Entry   struct{ Level, Text, URL string }
		Details json.RawMessage `json:"exceptionDetails"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	switch m.Method {
	case "Network.requestWillBeSent":
		b.asked = append(b.asked, p.Request.URL)
	case "Log.entryAdded":
		if p.Entry.Level == "error" {
			b.faults = append(b.faults, p.Entry.Text+" "+p.Entry.URL)
		}
	case "Runtime.exceptionThrown":
		b.faults = append(b.faults, string(p.Details))
	}
}

// call sends a command and decodes its result into out, unless that is nil.
func (b *browser) call(session, method string, params, out any) {
	b.t.Helper()
	if err := b.try(session, method, params, out); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// try is call, with what the browser says against it as an error.
func (b *browser) try(session, method string, params, out any) error {
	b.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.lastID++
	m := message{ID: b.lastID, Session: session, Method: method, Params: raw}
	b.waiting[m.ID] = answer
	b.mu.Unlock()
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case got := <-answer:
		switch {
		case got.Error != nil:
			return errors.New(got.Error.Message)
		case out != nil:
			return json.Unmarshal(got.Result, out)
		default:
			return nil
		}
	case <-time.After(patience):
		return errors.New("the browser does not answer")
	}
}

// tab is one page of a browser.
type tab struct {
	*browser
	session string
}

// open opens url in a tab of its own.
func (b *browser) open(url string) *tab {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	tab := &tab{browser: b, session: attached.SessionID}
	for _, domain := range []string{"Page", "Network", "Log", "Runtime"} {
		tab.do(domain+".enable", map[string]any{})
	}
	tab.do("Page.navigate", map[string]any{"url": url})
	return tab
}

func (p *tab) do(method string, params map[string]any) {
	p.t.Helper()
	p.call(p.session, method, params, nil)
}

// look makes the tab as large as a screen of width × height, light or dark.
func (p *tab) look(width, height int, dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// eval returns the value of a JavaScript expression as text.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	var got struct {
		Result  struct{ Value any }
		Details *struct{ Text string } `json:"exceptionDetails"`
	}
	err := p.try(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	switch {
	case err != nil: // the page made way for another just now
		return "error: " + err.Error()
	case got.Details != nil:
		return "exception: " + got.Details.Text
	default:
		return fmt.Sprint(got.Result.Value)
	}
}

// shows waits until the expression has the value.
func (p *tab) shows(expression, want string) {
	p.t.Helper()
	var got string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got = p.eval(expression); got == want {
			return
		}
	}
	p.t.Fatalf("%s = %s, want %s; the page:\n%s", expression, got, want, p.eval("document.body.innerText"))
}

// shot writes what the tab shows into dir, down to the page's end if whole.
func (p *tab) shot(dir, name string, whole bool) {
	p.t.Helper()
	params := map[string]any{"format": "png"}
	if whole {
		params["captureBeyondViewport"] = true
		var m struct {
			Size struct{ Width, Height float64 } `json:"cssContentSize"`
		}
		p.call(p.session, "Page.getLayoutMetrics", map[string]any{}, &m)
		params["clip"] = map[string]any{"x": 0, "y": 0, "width": m.Size.Width, "height": m.Size.Height, "scale": 1}
	}
	var got struct{ Data string }
	p.call(p.session, "Page.captureScreenshot", params, &got)
	image, err := base64.StdEncoding.DecodeString(got.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), image, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// wantOnly fails the test when a page asked for anything that is not under one
// of the origins, or complained.
func (b *browser) wantOnly(origins ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.asked {
		own := func(origin string) bool { return strings.HasPrefix(strings.TrimPrefix(url, "blob:"), origin+"/") }
		if !slices.ContainsFunc(origins, own) && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("a page asked for %s", url)
		}
	}
	for _, fault := range b.faults {
		b.t.Errorf("a page complained: %s", fault)
	}
}
