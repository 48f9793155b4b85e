package image

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Each source misbehaves during the download (request 2; request 1 is the
// probe) and still the pool ends with the whole image, or with nothing.
func TestEnsureImage_resumes(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, 3*mib)
	other := qcow2Bytes(t, testVirtual, 2*mib)
	const cut = 2 * mib
	for _, tt := range []struct {
		name      string
		etag      string
		unchecked bool // no checksum configured
		fault     func(s *site) func(int, http.ResponseWriter, *http.Request) bool
		want      instance.Reason
		requests  int
		// served is what the site has at the end, if not the content.
		served []byte
	}{
		{name: "cut once", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return s.cutAt(2, cut)
		}, requests: 3},
		{name: "cut once, nothing to resume by but the checksum", fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return s.cutAt(2, cut)
		}, requests: 3},
		{name: "cut once, nothing to resume by", unchecked: true, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return s.cutAt(2, cut)
		}, requests: 3},
		{name: "cut again and again", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n == 1 || n > 6 {
					return false
				}
				s.serve(w, r, int64(n)*mib/4)
				return true
			}
		}, requests: 7},
		{name: "cut for ever", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n > 1 {
					s.serve(w, r, mib+int64(n)*1024)
				}
				return n > 1
			}
		}, want: instance.ReasonDownloadFailed, requests: 1 + 1 + 10},
		{name: "503 in between", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				switch n {
				case 2:
					s.serve(w, r, cut)
				case 3, 4:
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return n >= 2 && n <= 4
			}
		}, requests: 5},
		{name: "gone in between", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				switch n {
				case 2:
					s.serve(w, r, cut)
				case 3:
					w.WriteHeader(http.StatusGone)
				}
				return n == 2 || n == 3
			}
		}, want: instance.ReasonImageUnavailable, requests: 3},
		{name: "Range ignored", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				r.Header.Del("Range")
				if n == 2 {
					s.serve(w, r, cut)
				}
				return n == 2
			}
		}, requests: 4},
		{name: "another part than asked for", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				switch n {
				case 2:
					s.serve(w, r, cut)
				case 3:
					w.Header().Set("Content-Range", "bytes 0-3145727/3145728")
					w.Header().Set("Content-Length", "3145728")
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write(content)
				}
				return n == 2 || n == 3
			}
		}, requests: 4},
		{name: "ETag changed behind the same answer", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				switch n {
				case 2:
					s.serve(w, r, cut)
				case 3:
					s.etag = `"b"`
					r.Header.Set("If-Range", s.etag)
				}
				return n == 2
			}
		}, requests: 4},
		{name: "content replaced", etag: `"a"`, unchecked: true, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				switch n {
				case 2:
					s.serve(w, r, cut)
				case 3:
					s.etag, s.content = `"b"`, other
				}
				return n == 2
			}
		}, requests: 4, served: other},
		{name: "promises more than it has", etag: `"a"`, fault: func(s *site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Range") != "" {
					w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
					return true
				}
				w.Header().Set("ETag", s.etag)
				w.Header().Set("Content-Length", "4000000")
				_, _ = w.Write(content)
				panic(http.ErrAbortHandler)
			}
		}, want: instance.ReasonDownloadFailed, requests: 1 + 2*(1+10)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &site{content: content, etag: tt.etag}
				s.fault = tt.fault(s)
				pool, img := newMemPool(testHost), imageOf(content)
				if tt.unchecked {
					img.SHA256 = ""
				}
				k := newKit(t, pool, s)
				defer k.close(t)
				_, err := k.ensure(t.Context(), img)
				if got := s.requestCount(); got != tt.requests {
					t.Errorf("got %d requests, want %d", got, tt.requests)
				}
				if tt.want != "" {
					wantReason(t, err, tt.want)
					if got := pool.names(); len(got) != 0 {
						t.Errorf("got volumes %v, want none", got)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := content
				if tt.served != nil {
					want = tt.served
				}
				wantClean(t, pool, img, want)
			})
		})
	}
}

func TestEnsureImage_resumesByRangeAndIfRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, 3*mib)
		s := &site{content: content, etag: `"a"`}
		s.fault = s.cutAt(2, 2*mib)
		k := newKit(t, newMemPool(testHost), s)
		k.mustEnsure(t, imageOf(content))
		h := s.header(3)
		if got, want := h.Get("Range"), "bytes=2097152-"; got != want {
			t.Errorf("got Range %q, want %q", got, want)
		}
		if got, want := h.Get("If-Range"), `"a"`; got != want {
			t.Errorf("got If-Range %q, want %q", got, want)
		}
		k.close(t)
	})
}

// A source that is mute is given up after the stall limit, whether it never
// answers, stops in the middle, or is mute over several connections.
func TestEnsureImage_stallIsTransientAfterTheLimit(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, 3*mib)
	for _, tt := range []struct {
		name  string
		fault func(s *site) func(int, http.ResponseWriter, *http.Request) bool
	}{
		{"no answer to the probe", func(*site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(_ int, _ http.ResponseWriter, r *http.Request) bool {
				hang(r)
				return true
			}
		}},
		{"no answer to the download", func(*site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, _ http.ResponseWriter, r *http.Request) bool {
				if n > 1 {
					hang(r)
				}
				return n > 1
			}
		}},
		{"stops in the middle", func(*site) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n > 1 {
					w.Header().Set("Content-Length", "3145728")
					_, _ = w.Write(content[:mib])
					hang(r)
				}
				return n > 1
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &site{content: content}
				s.fault = tt.fault(s)
				pool := newMemPool(testHost)
				k := newKit(t, pool, s)
				begun := time.Now()
				_, err := k.ensure(t.Context(), imageOf(content))
				wantReason(t, err, instance.ReasonDownloadFailed)
				if got := time.Since(begun); got < testStall || got > testStall+maxPause {
					t.Errorf("given up after %v, want about %v", got, testStall)
				}
				if got := pool.names(); len(got) != 0 {
					t.Errorf("got volumes %v, want none", got)
				}
				k.close(t)
			})
		})
	}
}

// Without a total limit a slow source is done when it is done; with one, it is not.
func TestEnsureImage_transferLimit(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	for _, tt := range []struct {
		name  string
		limit time.Duration
		want  instance.Reason
	}{
		{"none", 0, ""},
		{"long enough", time.Hour, ""},
		{"too short", 20 * time.Minute, instance.ReasonDownloadFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &site{content: content}
				s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
					if n == 1 {
						return false
					}
					w.Header().Set("Content-Length", "1048576")
					_ = trickle(r.Context(), w, content, 50, 50*time.Second)
					return true
				}
				pool := newMemPool(testHost)
				k := newKit(t, pool, s, func(o *Options) { o.Transfer = tt.limit })
				defer k.close(t)
				_, err := k.ensure(t.Context(), imageOf(content))
				if tt.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				wantReason(t, err, tt.want)
				if !strings.Contains(err.Error(), "transfer limit of 20m0s") {
					t.Errorf("got %v, want it to name the limit", err)
				}
				if got := pool.names(); len(got) != 0 {
					t.Errorf("got volumes %v, want none", got)
				}
			})
		})
	}
}

// A host that is slow to take bytes is no stall of the source.
func TestEnsureImage_slowPoolIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		pool.pause = 10 * testStall
		k := newKit(t, pool, &site{content: content})
		k.mustEnsure(t, img)
		wantClean(t, pool, img, content)
		k.close(t)
	})
}

func TestPauseBefore_growsAndIsBounded(t *testing.T) {
	for n := 1; n < 200; n++ {
		if got := pauseBefore(n); got < firstPause/2 || got > maxPause {
			t.Errorf("before request %d: got %v, want between %v and %v", n, got, firstPause/2, maxPause)
		}
	}
}
