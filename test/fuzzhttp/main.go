// Command fuzzhttp sends a daemon with simulated hosts requests made from the
// API's contract and spoiled in many ways, and holds each answer against the
// contract. It prints how often each operation answered with each status, and
// fails on an answer that the contract does not have, an internal fault, a data
// race, user data in the log, and goroutines that stay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	binary := flag.String("binary", "", "the kvm2d to start, best built with -race")
	took := flag.Duration("time", time.Minute, "how long to send requests")
	seed := flag.Uint64("seed", 1, "the same seed sends the same requests")
	senders := flag.Int("senders", 4, "how many requests are sent side by side")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := fuzz(ctx, *binary, *took, *seed, *senders); err != nil {
		fmt.Fprintln(os.Stderr, "fuzzhttp:", err)
		os.Exit(1)
	}
}

// fuzz runs the whole thing once.
func fuzz(ctx context.Context, binary string, took time.Duration, seed uint64, senders int) error {
	contract, err := loadContract()
	if err != nil {
		return err
	}
	d, err := startDaemon(ctx, binary)
	if err != nil {
		return err
	}
	before, err := d.settled(ctx)
	if err != nil {
		return errors.Join(err, d.stop())
	}
	result := newResult()
	send(ctx, contract, d.api, result, plan{took: took, seed: seed, senders: senders})
	if err := d.cleanUp(ctx); err != nil {
		result.fail("", "clean up: "+err.Error())
	}
	after, err := d.goroutinesBelow(ctx, before)
	if err != nil {
		result.fail("", err.Error())
	}
	if err := d.stop(); err != nil {
		result.fail("", err.Error())
	}
	for _, line := range d.complaints() {
		result.fail("", "the daemon said: "+line)
	}
	result.print(os.Stdout)
	fmt.Printf("seed %d, %d goroutines before, %d after\n", seed, before, after)
	return result.err()
}
