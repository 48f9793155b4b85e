package image

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// slowSite serves its probe at once and the download in ten pieces, 40 s apart.
func slowSite(content []byte) *site {
	s := &site{content: content}
	s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			return false
		}
		w.Header().Set("Content-Length", "1048576")
		_ = trickle(r.Context(), w, content, 16, 40*time.Second)
		return true
	}
	return s
}

func TestStatus_states(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		k := newKit(t, pool, slowSite(content))
		row := func() instance.ImageStatus {
			rows, err := k.cache.Status(t.Context(), testHost, []instance.Image{img})
			if err != nil || len(rows) != 1 {
				t.Fatalf("got %+v, %v, want one row", rows, err)
			}
			return rows[0]
		}
		want := instance.ImageStatus{Image: "debian", Host: testHost, Identity: identityOf(img), State: instance.ImageAbsent}
		if diff := cmp.Diff(want, row()); diff != "" {
			t.Errorf("absent (-want +got):\n%s", diff)
		}
		begun := time.Now()
		if err := k.cache.Pull(t.Context(), testHost, img); err != nil {
			t.Fatal(err)
		}
		time.Sleep(325 * time.Second)
		synctest.Wait()
		want.State, want.TotalBytes, want.StartedAt, want.Attempt = instance.ImageDownloading, mib, begun, 1
		got := row()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(want, "DoneBytes", "BytesPerSecond")); diff != "" {
			t.Errorf("downloading (-want +got):\n%s", diff)
		}
		if got.DoneBytes < mib/2 || got.DoneBytes > mib/2+1024 {
			t.Errorf("got %d bytes done, want about half", got.DoneBytes)
		}
		time.Sleep(400 * time.Second)
		synctest.Wait()
		base := k.mustEnsure(t, img)
		overlayOn(pool, base)
		want = instance.ImageStatus{
			Image: "debian", Host: testHost, Identity: identityOf(img), State: instance.ImageReady, SizeBytes: mib, Overlays: 1,
		}
		if diff := cmp.Diff(want, row()); diff != "" {
			t.Errorf("ready (-want +got):\n%s", diff)
		}
		k.close(t)
	})
}

func TestStatus_failedUntilItSucceeds(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	s := &site{content: content, fault: status(http.StatusNotFound)}
	k := newKit(t, pool, s)
	_, err := k.ensure(t.Context(), img)
	wantReason(t, err, instance.ReasonImageUnavailable)
	rows, err := k.cache.Status(t.Context(), testHost, []instance.Image{img})
	if err != nil {
		t.Fatal(err)
	}
	if got := rows[0]; got.State != instance.ImageFailed || got.Reason != instance.ReasonImageUnavailable || !strings.Contains(got.Failure, "404") {
		t.Errorf("got %+v, want failed for the 404", got)
	}
	s.fault = nil
	k.mustEnsure(t, img)
	rows, err = k.cache.Status(t.Context(), testHost, []instance.Image{img})
	if err != nil || rows[0].State != instance.ImageReady || rows[0].Failure != "" {
		t.Errorf("got %+v, %v, want ready", rows, err)
	}
	// Somebody else takes it away.
	for _, name := range pool.names() {
		pool.remove(name)
	}
	rows, err = k.cache.Status(t.Context(), testHost, []instance.Image{img})
	if err != nil || rows[0].State != instance.ImageAbsent || rows[0].Failure != "" {
		t.Errorf("got %+v, %v, want absent, and the failure that was mended forgotten", rows, err)
	}
}

// TestStatus_removalForgetsTheFailure: what is removed has not failed any more.
func TestStatus_removalForgetsTheFailure(t *testing.T) {
	img := imageOf(nil)
	k := newKit(t, newMemPool(testHost), &site{fault: status(http.StatusNotFound)})
	_, err := k.ensure(t.Context(), img)
	wantReason(t, err, instance.ReasonImageUnavailable)
	if err := k.cache.Remove(t.Context(), testHost, img, ""); err != nil {
		t.Fatal(err)
	}
	rows, err := k.cache.Status(t.Context(), testHost, []instance.Image{img})
	if err != nil || rows[0].State != instance.ImageAbsent || rows[0].Failure != "" {
		t.Errorf("got %+v, %v, want absent", rows, err)
	}
}

// TestStatus_failedDownload: one that failed after its source was looked at is
// told as well, also when nobody waited for it.
func TestStatus_failedDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		img := imageOf(content)
		s := &site{content: content}
		k := newKit(t, newMemPool(testHost), s)
		img.SHA256 = strings.Repeat("0", 64)
		if err := k.cache.Pull(t.Context(), testHost, img); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		rows, err := k.cache.Status(t.Context(), testHost, []instance.Image{img})
		if err != nil || len(rows) != 1 || rows[0].State != instance.ImageFailed || rows[0].Reason != instance.ReasonChecksumMismatch {
			t.Errorf("got %+v, %v, want it failed for its checksum", rows, err)
		}
		if got := s.header(1).Get("User-Agent"); got != "kvm2d" {
			t.Errorf("the source was asked by %q, want kvm2d", got)
		}
		k.close(t)
	})
}

// TestStatus_markerOfNothing: what a marker points at may be gone, and other
// volumes have backing files too; neither is an image.
func TestStatus_markerOfNothing(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	base := k.mustEnsure(t, img)
	overlayOn(pool, base)
	if err := pool.DeleteVolume(t.Context(), base.Volume); err != nil {
		t.Fatal(err)
	}
	rows, err := k.cache.Status(t.Context(), testHost, []instance.Image{img})
	if err != nil || len(rows) != 1 || rows[0].State != instance.ImageAbsent {
		t.Errorf("got %+v, %v, want the image absent", rows, err)
	}
}

// Older contents, and images that are not configured any more, are listed while they are there.
func TestStatus_otherContents(t *testing.T) {
	old, changed := qcow2Bytes(t, testVirtual, mib), qcow2Bytes(t, testVirtual, 2*mib)
	pool, s := newMemPool(testHost), &site{content: old}
	k := newKit(t, pool, s)
	k.mustEnsure(t, imageOf(old))
	gone := imageOf(old)
	gone.Name = "zzz"
	k.mustEnsure(t, gone)
	s.content = changed
	k.mustEnsure(t, imageOf(changed))
	rows, err := k.cache.Status(t.Context(), testHost, []instance.Image{imageOf(changed)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, r.Image+" "+r.Identity+" "+string(r.State))
	}
	want := []string{
		"debian " + identityOf(imageOf(changed)) + " ready", "debian " + identityOf(imageOf(old)) + " ready", "zzz " + identityOf(gone) + " ready",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestPlan_writesNothing(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	want := instance.ImagePlan{State: instance.ImageAbsent, DownloadBytes: mib, VirtualBytes: testVirtual}
	got, err := k.cache.Plan(t.Context(), testHost, img, testDisk)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("absent: %v (-want +got):\n%s", err, diff)
	}
	_, err = k.cache.Plan(t.Context(), testHost, img, 1)
	wantReason(t, err, instance.ReasonDiskTooSmall)
	if got := pool.writes(); len(got) != 0 {
		t.Errorf("got writes %v, want none", got)
	}
	k.mustEnsure(t, img)
	want = instance.ImagePlan{State: instance.ImageReady, VirtualBytes: testVirtual}
	got, err = k.cache.Plan(t.Context(), testHost, img, 0)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ready: %v (-want +got):\n%s", err, diff)
	}
	_, err = k.cache.Plan(t.Context(), testHost, img, 1)
	wantReason(t, err, instance.ReasonDiskTooSmall)
}

// Who comes while the download runs is checked by its facts, without another
// look at the source, and what is written already is not asked for again.
func TestEnsureImage_joinersAreAdmittedByTheDownloadsFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		s := slowSite(content)
		k := newKit(t, pool, s)
		if err := k.cache.Pull(t.Context(), testHost, img); err != nil {
			t.Fatal(err)
		}
		time.Sleep(325 * time.Second)
		synctest.Wait()
		plan, err := k.cache.Plan(t.Context(), testHost, img, 0)
		if err != nil || plan.State != instance.ImageDownloading || plan.VirtualBytes != testVirtual {
			t.Errorf("got %+v, %v, want downloading", plan, err)
		}
		_, err = k.cache.Ensure(t.Context(), testHost, img, testVirtual-1)
		wantReason(t, err, instance.ReasonDiskTooSmall)
		left := plan.DownloadBytes
		if left < mib/2-1024 || left > mib/2 {
			t.Errorf("got %d bytes left, want about half", left)
		}
		pool.setFree(left + testDisk + seedRoom - 1)
		_, err = k.ensure(t.Context(), img)
		wantReason(t, err, instance.ReasonPoolFull)
		pool.setFree(left + testDisk + seedRoom)
		k.mustEnsure(t, img)
		if got := s.requestCount(); got != 2 {
			t.Errorf("got %d requests, want a probe and a download", got)
		}
		k.close(t)
	})
}

func TestPull_saysAtOnceWhatIsWrong(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	s := &site{content: content, fault: status(http.StatusNotFound)}
	k := newKit(t, pool, s)
	wantReason(t, k.cache.Pull(t.Context(), testHost, img), instance.ReasonImageUnavailable)
	s.fault = nil
	pool.setFree(mib - 1)
	wantReason(t, k.cache.Pull(t.Context(), testHost, img), instance.ReasonPoolFull)
	pool.setFree(mib)
	for range 2 {
		if err := k.cache.Pull(t.Context(), testHost, img); err != nil {
			t.Fatal(err)
		}
	}
}

// One span per download, under the request that started it; who joins links to it.
func TestDownload_spanUnderTheRequestAndLinkedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		k := newKit(t, newMemPool(testHost), slowSite(content))
		ctx, starter := k.cache.tracer.Start(t.Context(), "first request")
		if err := k.cache.Pull(ctx, testHost, imageOf(content)); err != nil {
			t.Fatal(err)
		}
		starter.End()
		ctx, joiner := k.cache.tracer.Start(t.Context(), "second request")
		if _, err := k.ensure(ctx, imageOf(content)); err != nil {
			t.Fatal(err)
		}
		joiner.End()
		k.close(t)
		var download trace.SpanContext
		var links int
		for _, s := range k.spans.Ended() {
			switch s.Name() {
			case "kvm2.download":
				download = s.SpanContext()
				if s.Parent().SpanID() != starter.SpanContext().SpanID() {
					t.Error("the download is not under the request that started it")
				}
			case "second request":
				for _, l := range s.Links() {
					if l.SpanContext.SpanID() == download.SpanID() {
						links++
					}
				}
			case "first request":
			default:
				t.Errorf("got a span %q", s.Name())
			}
		}
		if links != 1 {
			t.Errorf("got %d links of the second request to the download, want 1", links)
		}
	})
}

// A short download is silent at Info; a long one tells of itself, and one that
// nobody waited for tells how it ended.
func TestDownload_logLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		quick := newKit(t, newMemPool(testHost), &site{content: content})
		quick.mustEnsure(t, imageOf(content))
		if got := quick.log.String(); strings.Contains(got, "level=INFO") || !strings.Contains(got, "level=DEBUG") {
			t.Errorf("got %q, want debug lines only", got)
		}
		quick.close(t)
		slow := newKit(t, newMemPool(testHost), slowSite(content))
		if err := slow.cache.Pull(t.Context(), testHost, imageOf(content)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		got := slow.log.String()
		for _, want := range []string{"image download under way", "bytes_per_second=", "attempt=1", `level=INFO msg="image download ended"`} {
			if !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		}
		slow.close(t)
	})
}

func TestDownload_metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		k := newKit(t, newMemPool(testHost), slowSite(content))
		if err := k.cache.Pull(t.Context(), testHost, imageOf(content)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if got := testutil.ToFloat64(k.cache.metrics.total.WithLabelValues(testHost, "debian")); got != mib {
			t.Errorf("got a total of %v bytes, want %d", got, mib)
		}
		if got := testutil.ToFloat64(k.cache.metrics.done.WithLabelValues(testHost, "debian")); got <= 0 {
			t.Errorf("got %v bytes done, want some", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := testutil.ToFloat64(k.cache.metrics.ends.WithLabelValues(testHost, "debian", "Ready")); got != 1 {
			t.Errorf("got %v downloads, want 1", got)
		}
		if got := testutil.ToFloat64(k.cache.metrics.bytes.WithLabelValues(testHost, "debian")); got != mib {
			t.Errorf("bytes downloaded: got %v, want %v", got, mib)
		}
		if got := testutil.CollectAndCount(k.cache.metrics.done); got != 0 {
			t.Errorf("got %d running downloads, want none", got)
		}
		k.close(t)
	})
}

func TestNew_namesEveryMissingOption(t *testing.T) {
	_, err := New(Options{})
	want := "image: missing options: Pool, Log, Tracer, Registerer"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
