package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// settleLimit bounds how long the daemon may take to come to rest.
const settleLimit = time.Minute

// daemon is a kvm2d with simulated hosts in a process of its own.
type daemon struct {
	cmd        *exec.Cmd
	api, admin string
	client     *http.Client
	reader     sync.WaitGroup

	mu   sync.Mutex
	said []string
}

// startDaemon starts the binary on free ports and waits until it serves.
func startDaemon(ctx context.Context, binary string) (*daemon, error) {
	d := &daemon{client: &http.Client{Timeout: settleLimit, Transport: &http.Transport{DisableKeepAlives: true}}}
	d.cmd = exec.CommandContext(ctx, binary, "serve", "--simulate", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(syscall.SIGTERM) }
	log, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	serving := make(chan struct{})
	d.reader.Go(func() { d.read(log, sync.OnceFunc(func() { close(serving) })) })
	select {
	case <-serving:
		return d, nil
	case <-time.After(settleLimit):
		return nil, errors.Join(errors.New("the daemon does not serve"), d.stop())
	}
}

// read keeps the lines of the log that should not be there.
func (d *daemon) read(log io.Reader, serving func()) {
	defer serving() // it will not any more
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		var entry struct {
			Level, Msg, Listen string
			AdminListen        string `json:"admin_listen"`
		}
		parsed := json.Unmarshal([]byte(line), &entry) == nil
		if parsed && entry.Msg == "serving" {
			d.api, d.admin = entry.Listen, entry.AdminListen
			serving()
		}
		if line != "" && (!parsed || entry.Level == "ERROR" || strings.Contains(line, sentinel)) {
			d.mu.Lock()
			d.said = append(d.said, strings.TrimSpace(line))
			d.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// complaints are lines of the log that are no JSON (a data race, a crash), that
// are errors, or that hold user data; the first of them.
func (d *daemon) complaints() []string {
	const enough = 60
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said[:min(len(d.said), enough)]
}

// stop ends the daemon in order.
func (d *daemon) stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	d.reader.Wait()
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("the daemon ended: %w", err)
	}
	return nil
}

// do makes a request, checks the status and decodes a JSON body into out.
func (d *daemon) do(ctx context.Context, method, url, body string, want int, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != want {
		return fmt.Errorf("%s %s: %s %s", method, url, res.Status, text)
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *string:
		*out = string(text)
		return nil
	default:
		return json.Unmarshal(text, out)
	}
}

// settled warms everything up that stays, and returns how many goroutines the
// daemon then has at rest.
func (d *daemon) settled(ctx context.Context) (int, error) {
	for _, host := range []string{"sim-1", "sim-2"} {
		if err := d.do(ctx, http.MethodPost, "http://"+d.api+"/instances", `{"name":"first","placement":"`+host+`"}`, http.StatusCreated, nil); err != nil {
			return 0, err
		}
	}
	if err := d.cleanUp(ctx); err != nil {
		return 0, err
	}
	last, same := 0, 0
	for same < 3 {
		n, err := d.goroutines(ctx)
		if err != nil {
			return 0, err
		}
		if n == last {
			same++
		} else {
			last, same = n, 0
		}
		if err := pause(ctx); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// cleanUp deletes every instance.
func (d *daemon) cleanUp(ctx context.Context) error {
	var list struct{ Items []struct{ ID string } }
	if err := d.do(ctx, http.MethodGet, "http://"+d.api+"/instances", "", http.StatusOK, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		if err := d.do(ctx, http.MethodDelete, "http://"+d.api+"/instances/"+item.ID, "", http.StatusNoContent, nil); err != nil {
			return err
		}
	}
	return nil
}

// goroutinesBelow waits until the daemon has no more goroutines than before.
func (d *daemon) goroutinesBelow(ctx context.Context, before int) (n int, err error) {
	for deadline := time.Now().Add(settleLimit); time.Now().Before(deadline); {
		if n, err = d.goroutines(ctx); err != nil || n <= before {
			return n, err
		}
		if err := pause(ctx); err != nil {
			return n, err
		}
	}
	return n, fmt.Errorf("%d goroutines stay, there were %d before", n, before)
}

var goroutineMetric = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

func (d *daemon) goroutines(ctx context.Context) (int, error) {
	var text string
	if err := d.do(ctx, http.MethodGet, "http://"+d.admin+"/metrics", "", http.StatusOK, &text); err != nil {
		return 0, err
	}
	found := goroutineMetric.FindStringSubmatch(text)
	if found == nil {
		return 0, errors.New("the metrics have no go_goroutines")
	}
	return strconv.Atoi(found[1])
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(500 * time.Millisecond):
		return nil
	}
}
