package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"kvm2d": main,
	})
}

// leakChecked runs the tests and then looks for goroutines they left.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patience bounds every wait of a test.
const patience = 30 * time.Second

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Values[daemonKey{}] = &daemon{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":   cmdServe,
			"stopped": cmdStopped,
			"hangup":  cmdHangup,
			"exits":   cmdExits,
			"fetch":   cmdFetch,
		},
		RequireExplicitExec: true,
	})
}

// daemonKey is where a script keeps the daemon that it started.
type daemonKey struct{}

type daemon struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
}

func daemonOf(ts *testscript.TestScript) *daemon {
	d, ok := ts.Value(daemonKey{}).(*daemon)
	if !ok {
		ts.Fatalf("no place for a daemon")
	}
	return d
}

// cmdServe starts kvm2d serve with free ports and the given arguments, and
// waits until it serves. $API and $ADMIN are its URLs then; serve.log is its log.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("to see serve fail, exec kvm2d serve")
	}
	path, err := exec.LookPath(programIn(ts.Getenv("PATH"), "kvm2d"))
	ts.Check(err)
	log, err := os.Create(ts.MkAbs("serve.log"))
	ts.Check(err)
	cmd := exec.CommandContext(context.Background(), path, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), log, log
	cmd.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"), "TMPDIR="+ts.Getenv("TMPDIR"))
	ts.Check(cmd.Start())
	d := daemonOf(ts)
	d.cmd, d.log, d.done = cmd, log, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(d.done)
	}()
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		<-d.done
		_ = log.Close()
	})
	api, admin, err := d.serving()
	ts.Check(err)
	ts.Setenv("API", "http://"+api)
	ts.Setenv("API_ADDRESS", api)
	ts.Setenv("ADMIN", "http://"+admin)
}

// programIn finds a program on a PATH that is not this process's.
func programIn(path, name string) string {
	for dir := range strings.SplitSeq(path, string(os.PathListSeparator)) {
		if p := dir + "/" + name; isFile(p) {
			return p
		}
	}
	return name
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// serving waits for the line that tells the addresses.
func (d *daemon) serving() (api, admin string, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		lines, err := os.Open(d.log.Name())
		if err != nil {
			return "", "", err
		}
		scan := bufio.NewScanner(lines)
		for scan.Scan() {
			var line struct {
				Msg    string `json:"msg"`
				Listen string `json:"listen"`
				Admin  string `json:"admin_listen"`
			}
			if json.Unmarshal(scan.Bytes(), &line) == nil && line.Msg == "serving" {
				_ = lines.Close()
				return line.Listen, line.Admin, nil
			}
		}
		_ = lines.Close()
		select {
		case <-d.done:
			text, _ := os.ReadFile(d.log.Name())
			return "", "", fmt.Errorf("kvm2d ended with %v:\n%s", d.cmd.ProcessState, text)
		default:
		}
	}
	return "", "", fmt.Errorf("kvm2d does not serve within %v", patience)
}

// cmdStopped sends SIGTERM and waits for the end, which must be with code 0.
func cmdStopped(ts *testscript.TestScript, _ bool, _ []string) {
	d := daemonOf(ts)
	ts.Check(d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-d.done:
	case <-time.After(patience):
		ts.Fatalf("kvm2d does not stop within %v", patience)
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		ts.Fatalf("kvm2d ended with %d, want 0", code)
	}
}

// cmdHangup sends SIGHUP and waits until the log has the line that it leads to.
func cmdHangup(ts *testscript.TestScript, _ bool, args []string) {
	d := daemonOf(ts)
	ts.Check(d.cmd.Process.Signal(syscall.SIGHUP))
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(d.log.Name())
		ts.Check(err)
		if strings.Contains(string(text), args[0]) {
			return
		}
		select {
		case <-d.done:
			ts.Fatalf("kvm2d ended with %v:\n%s", d.cmd.ProcessState, text)
		default:
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no line with %q within %v:\n%s", args[0], patience, text)
		}
	}
}

// cmdExits runs a program and wants the given exit code: exits CODE PROGRAM ARG.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdFetch is a small curl for scripts: fetch [METHOD] URL [BODY]. It prints the
// status and the body, and fails only when there is no answer. $TOKEN is its
// bearer token.
func cmdFetch(ts *testscript.TestScript, _ bool, args []string) {
	method, body := http.MethodGet, ""
	if !strings.Contains(args[0], "://") {
		method, args = args[0], args[1:]
	}
	if len(args) > 1 {
		body = args[1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, args[0], strings.NewReader(body))
	ts.Check(err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token := ts.Getenv("TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	ts.Check(err)
	defer func() { _ = res.Body.Close() }()
	fmt.Fprintln(ts.Stdout(), res.Status)
	_, err = io.Copy(ts.Stdout(), res.Body)
	ts.Check(err)
}
