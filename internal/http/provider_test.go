package http

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestClient_understandsTheServer: what the one module says the other one reads.
func TestClient_understandsTheServer(t *testing.T) {
	service := &fakeService{
		created: instance.Created{Instance: testInstance(), Made: true},
		page:    instance.Page{Items: []instance.Instance{testInstance()}},
		report:  instance.Report{Status: instance.HealthDown},
	}
	h := newHarness(t, service)
	server := httptest.NewServer(h.handler)
	defer server.Close()
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(testToken), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := client.NewProvider(client.Options{Name: "edge", Server: server.URL, TokenFile: tokenFile})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx := t.Context()
	const id = "hosts/h1/domains/proxy-1"

	userData := client.Secret("#cloud-config\r\n\x1f\x8b\xff")
	in, err := p.Create(ctx, client.CreateRequest{Name: "proxy-1", Placement: "p1", UserData: userData})
	if err != nil || in.ID != id || string(service.spec.UserData) != string(userData) {
		t.Errorf("Create = %v, %v; user data arrived: %v", in.ID, err, string(service.spec.UserData) == string(userData))
	}
	if in, err := p.Get(ctx, id); err != nil || in.Tags["pool"] != "egress" || !in.CreatedAt.Equal(testInstance().CreatedAt) {
		t.Errorf("Get = %+v, %v", in, err)
	}
	tags := map[string]string{"pool": "egress"}
	if items, err := p.ListByTag(ctx, tags); err != nil || len(items) != 1 || service.filter.Tags["pool"] != "egress" {
		t.Errorf("ListByTag = %v, %v", items, err)
	}
	if report, err := p.Check(ctx); err != nil || report.Status != client.Down {
		t.Errorf("Check = %v, %v", report, err)
	}
	if err := p.Delete(ctx, id, "u-1"); err != nil || service.id != id || service.uid != "u-1" {
		t.Errorf("Delete = %v of %q, %q", err, service.id, service.uid)
	}

	service.page.Unreachable = []instance.UnreachableHost{{Host: "h2", Reason: instance.ReasonUnreachable}}
	if _, err := p.ListByTag(ctx, tags); !errors.Is(err, client.ErrTransient) {
		t.Errorf("a list that is not whole: %v", err)
	}
	for reason, want := range map[instance.Reason]error{
		instance.ReasonInstanceNotFound:  client.ErrNotFound,
		instance.ReasonHostNotConfigured: client.ErrPermanent,
		instance.ReasonPoolFull:          client.ErrQuotaExceeded,
	} {
		service.err = &instance.Error{Reason: reason, Op: "get", Host: "h1"}
		_, err := p.Get(ctx, id)
		if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, want) || e.Reason != string(reason) || e.Host != "h1" {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
