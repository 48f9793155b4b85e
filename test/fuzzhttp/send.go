package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// plan is how much is sent.
type plan struct {
	took    time.Duration
	seed    uint64
	senders int
}

// send sends requests to address until the plan's time is over or ctx ends, and
// returns once every answer is judged.
func send(ctx context.Context, c *contract, address string, result *result, p plan) {
	ctx, cancel := context.WithTimeout(ctx, p.took)
	defer cancel()
	var wg sync.WaitGroup
	for i := range p.senders {
		m := &maker{Rand: rand.New(rand.NewPCG(p.seed, uint64(i))), contract: c, host: address}
		wg.Go(func() {
			for ctx.Err() == nil && !result.full() {
				r := m.next()
				// Each exchange is short and has limits of its own: none is cut off by the end.
				whole := context.WithoutCancel(ctx)
				a, err := exchange(whole, address, r)
				judge(whole, c, r, a, err, result)
			}
		})
	}
	wg.Wait()
}

// next makes a request, which one time in three keeps the contract. Creates are
// many: the others need something to work on.
func (m *maker) next() *request {
	op := pick(m, m.contract.operations...)
	if m.oneIn(3) {
		op = m.contract.create
	}
	r := m.make(op)
	for range m.IntN(3) {
		m.spoil(r)
	}
	return r
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// answerLimit is longer than the daemon gives a body, and than any call in a simulation takes.
const answerLimit = 45 * time.Second

// exchange sends r over a connection of its own. An unfinished request ends
// with the sender's end of the connection.
func exchange(ctx context.Context, address string, r *request) (*answer, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return nil, err
	}
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() {
		// The daemon may answer and hang up before it has read all.
		_, _ = conn.Write(r.bytes())
		if tcp, ok := conn.(*net.TCPConn); ok && r.unfinished {
			_ = tcp.CloseWrite()
		}
	})
	return receive(conn, r.method)
}

// receive reads the final answer to a request with that method.
func receive(conn io.Reader, method string) (*answer, error) {
	reader := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(reader, &http.Request{Method: strings.ToUpper(method)})
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
		if closeErr := res.Body.Close(); err != nil || closeErr != nil {
			return nil, fmt.Errorf("read the answer's body: %w", errors.Join(err, closeErr))
		}
		if res.StatusCode >= http.StatusOK {
			return &answer{res.StatusCode, res.Header, bytes.Clone(body)}, nil
		}
	}
}
