// Command forward carries TCP connections out of a network namespace into the one that it is started in.
//
//	forward NAMESPACE-FILE LISTEN=TARGET…
//
// It listens on each LISTEN inside the namespace and dials TARGET, outside of it, for each connection. It runs until it
// is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds how long a target may take to accept.
const dialTimeout = 5 * time.Second

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: forward NAMESPACE-FILE LISTEN=TARGET…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves the pairs; it returns only when it cannot.
func run(namespace string, pairs []string) error {
	failed := make(chan error)
	for _, pair := range pairs {
		address, target, _ := strings.Cut(pair, "=")
		listener, err := listenIn(namespace, address)
		if err != nil {
			return fmt.Errorf("listen on %s in %s: %w", address, namespace, err)
		}
		go func() { failed <- serve(listener, target) }()
	}
	return <-failed
}

// listenIn opens a listener on address inside the network namespace. A socket stays in the namespace that it was made
// in, whatever becomes of the thread that made it.
func listenIn(namespace, address string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result)
	go func() {
		// Never unlocked: the thread ends with this goroutine, and so no other one meets its namespace.
		runtime.LockOSThread()
		listener, err := func() (net.Listener, error) {
			file, err := os.Open(namespace)
			if err != nil {
				return nil, err
			}
			defer file.Close()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return nil, err
			}
			var config net.ListenConfig
			return config.Listen(context.Background(), "tcp", address)
		}()
		done <- result{listener, err}
	}()
	r := <-done
	return r.listener, r.err
}

// serve carries each connection that listener accepts to target; it returns when listener fails.
func serve(listener net.Listener, target string) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := carry(conn, target); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
}

// carry copies both ways between conn and a connection to target until both have ended, and closes them.
func carry(conn net.Conn, target string) error {
	defer conn.Close()
	dialer := net.Dialer{Timeout: dialTimeout}
	out, err := dialer.DialContext(context.Background(), "tcp", target)
	if err != nil {
		return err
	}
	defer out.Close()
	var both sync.WaitGroup
	both.Go(func() { copyThenClose(out, conn) })
	both.Go(func() { copyThenClose(conn, out) })
	both.Wait()
	return nil
}

// copyThenClose copies from one connection to the other, and passes its end on. A connection that broke ends both.
func copyThenClose(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, canHalf := to.(*net.TCPConn)
	if err != nil && !errors.Is(err, net.ErrClosed) || !canHalf {
		to.Close()
		from.Close()
		return
	}
	_ = half.CloseWrite()
}
