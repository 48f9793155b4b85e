package libvirtx

import "time"

// A peer that does not answer keepaliveWait after it was asked, every
// keepaliveEvery, is dead: found within the sum of both at most, plus the time
// of the answer before.
const (
	keepaliveEvery = 15 * time.Second
	keepaliveWait  = 15 * time.Second
)

// keepAlive asks the far end now and then whether it is there, and closes the
// tunnel when it is not: no other sign of a silent peer reaches a blocked Read.
// Every hop is in the way of the question, so one asker is enough.
func (t *tunnel) keepAlive() {
	client := t.last()
	gone := make(chan struct{})
	t.work.Go(func() {
		defer close(gone)
		_ = client.Wait()
	})
	t.work.Go(func() {
		ticker := time.NewTicker(keepaliveEvery)
		defer ticker.Stop()
		for {
			select {
			case <-gone:
				return
			case <-ticker.C:
			}
			tooLate := time.AfterFunc(keepaliveWait, func() { _ = t.close() })
			_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
			tooLate.Stop()
			if err != nil {
				_ = t.close()
				return
			}
		}
	})
}
