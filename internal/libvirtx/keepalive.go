package libvirtx

import "time"

// keepalive says how often a peer is asked whether it is there, and how long
// it may take to answer: a dead one is found within the sum of both.
type keepalive struct{ every, wait time.Duration }

var defaultKeepalive = keepalive{every: 15 * time.Second, wait: 15 * time.Second}

// keepAlive asks the far end now and then whether it is there, and closes the
// tunnel when it is not: no other sign of a silent peer reaches a blocked Read.
// Every hop is in the way of the question, so one asker is enough.
func (t *tunnel) keepAlive(k keepalive) {
	client := t.last()
	gone := make(chan struct{})
	t.work.Go(func() {
		defer close(gone)
		_ = client.Wait()
	})
	t.work.Go(func() {
		ticker := time.NewTicker(k.every)
		defer ticker.Stop()
		for {
			select {
			case <-gone:
				return
			case <-ticker.C:
			}
			tooLate := time.AfterFunc(k.wait, func() {
				t.silent.Store(&silentError{wait: k.wait})
				_ = t.close()
			})
			_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
			tooLate.Stop()
			if err != nil {
				_ = t.close()
				return
			}
		}
	})
}
