//go:build k8s

package k8s_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// listing is a caller that lists instances all the time, and never a second time what failed.
type listing struct {
	client *http.Client
	url    string
	token  string

	cancel context.CancelFunc
	done   sync.WaitGroup
	calls  int
	failed []error
}

// listAllTheTime starts a listing through the Service, which its owner ends.
func listAllTheTime(t *testing.T) *listing {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listing{
		client: &http.Client{Transport: clusterTransport(t), Timeout: 10 * time.Second},
		url:    serviceURL(t) + "/instances", token: chartToken(t), cancel: cancel,
	}
	l.done.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			l.calls++
			// The end of the listing spoils no call that is under way.
			if err := l.list(context.WithoutCancel(ctx)); err != nil {
				l.failed = append(l.failed, err)
			}
		}
	})
	return l
}

func (l *listing) list(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+l.token)
	response, err := l.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}

// end waits for the last call and says how many there were, and which failed.
func (l *listing) end() (calls int, failed []error) {
	l.cancel()
	l.done.Wait()
	return l.calls, l.failed
}
