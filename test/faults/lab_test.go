//go:build faults

package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// labHost is one host of the lab, as one test sees it.
type labHost struct {
	*testing.T
	name, addr, user, key, knownHosts string
}

// labHosts reads where the lab's hosts are.
func labHosts(t *testing.T) map[string]labHost {
	t.Helper()
	env := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(command(t, "../lab/lab", "env"))); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), "=")
		env[key] = value
	}
	hosts := map[string]labHost{}
	for _, name := range []string{"h1", "h2"} {
		uri, err := url.Parse(env["KVM2D_LAB_"+strings.ToUpper(name)+"_URI"])
		if err != nil {
			t.Fatal(err)
		}
		hosts[name] = labHost{
			T: t, name: name, addr: uri.Host, user: uri.User.Username(),
			key: env["KVM2D_LAB_KEY"], knownHosts: env["KVM2D_LAB_KNOWN_HOSTS"],
		}
	}
	return hosts
}

// command runs a program to its end and returns what it printed. It also runs
// during clean-ups.
func command(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	// A daemon that it leaves behind may hold the pipes open.
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, stderr.String())
	}
	return stdout.Bytes()
}

// sh runs a shell command as root on the host.
func (h labHost) sh(script string) string {
	h.Helper()
	return string(command(h.T, "../lab/lab", "exec", h.name, "sh", "-ec", script))
}

// signal sends a signal to every process of that name on the host, and only
// there: the host's pids are its own.
func (h labHost) signal(signal, process string) {
	h.Helper()
	h.sh(fmt.Sprintf("pids=$(pgrep '^%s') && kill -%s $pids", process, signal))
}

// startSSHD starts the SSH server, with arguments beside its configuration.
func (h labHost) startSSHD(args ...string) {
	h.Helper()
	command(h.T, "./sshd", append([]string{h.name}, args...)...)
}

// restartSSHD ends all SSH server processes and starts anew.
func (h labHost) restartSSHD(args ...string) {
	h.Helper()
	h.signal("KILL", "sshd")
	h.startSSHD(args...)
}

// connections counts the SSH server's side of the host's TCP connections.
func (h labHost) connections() int {
	h.Helper()
	addr, err := net.ResolveTCPAddr("tcp4", h.addr)
	if err != nil {
		h.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		h.Fatal(err)
	}
	ip := addr.IP.To4()
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], addr.Port)
	const established, closeWait = "01", "08"
	count := 0
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[1] == local && (fields[3] == established || fields[3] == closeWait) {
			count++
		}
	}
	return count
}
