// Command kvm2d serves small virtual machines on remote libvirt hosts over REST.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes. Scripts rely on them: add, never change.
const (
	exitOK = 0
	// exitFailed: it was tried and did not work.
	exitFailed = 1
	// exitUsage: wrong arguments, or a configuration with faults.
	exitUsage = 2
	// exitNotReady: check-host found a host that cannot be used.
	exitNotReady = 3
)

func main() {
	// A second signal ends the process at once: stop is called on the first.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// outcome is an error of a command that was understood, with its exit code.
// Any other error that reaches execute is one of usage.
type outcome struct {
	code int
	err  error
}

func (o *outcome) Error() string { return o.err.Error() }
func (o *outcome) Unwrap() error { return o.err }

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot() //nolint:contextcheck // cobra hands the context to the command that runs
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if o, ok := errors.AsType[*outcome](err); ok {
		if text := o.Error(); text != "" {
			fmt.Fprintln(stderr, "kvm2d: "+text)
		}
		return o.code
	}
	fmt.Fprintf(stderr, "kvm2d: %v\nkvm2d help tells how it is called.\n", err)
	return exitUsage
}
