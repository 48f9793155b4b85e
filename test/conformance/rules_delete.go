package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
)

// deleteRules end the main instance, in this order.
var deleteRules = []rule{
	{"D3", "a delete on a host that is not configured is success", checkD3},
	{"D5", "with ?uid= only an instance of that uid is deleted", checkD5},
	{"D1", "a second delete, and one of what never was, are success", checkD1},
	{"G1", "after a delete the instance is NotFound", checkG1},
	{"D2", "a delete leaves the image", checkD2},
	{"D4", "a delete answers once everything is gone, also beside others", checkD4},
}

func checkD3(ctx context.Context, p *probe) error {
	a, err := p.delete(ctx, "/instances/hosts/nohost-"+p.run+"/domains/"+p.name("main"))
	if err != nil {
		return err
	}
	p.that(a.status == http.StatusNoContent, "it is 204", "got %s", a)
	return nil
}

func checkD5(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	other, err := p.delete(ctx, m.path+"?uid="+url.QueryEscape(p.value("other")))
	if err != nil {
		return err
	}
	p.refuses(other, http.StatusConflict, "Permanent", "UIDMismatch", "another uid")
	empty, err := p.delete(ctx, m.path+"?uid=")
	if err != nil {
		return err
	}
	p.refuses(empty, http.StatusBadRequest, "Permanent", "InvalidRequest", "an empty uid")
	read, err := p.get(ctx, m.path)
	if err != nil {
		return err
	}
	p.that(read.ok(), "neither deletes it", "got %s", read)
	own, err := p.delete(ctx, m.path+"?uid="+url.QueryEscape(p.value("uid")))
	if err != nil {
		return err
	}
	p.that(own.status == http.StatusNoContent, "its own uid deletes it", "got %s", own)
	return nil
}

func checkD1(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	for _, row := range []struct{ what, path string }{
		{"a delete of what is deleted", m.path},
		{"with a uid", m.path + "?uid=" + url.QueryEscape(p.value("uid"))},
		{"a delete of what never was", "/instances/" + p.id(p.name("never"))},
	} {
		a, err := p.delete(ctx, row.path)
		if err != nil {
			return err
		}
		p.that(a.status == http.StatusNoContent && len(a.body) == 0, row.what+" is 204", "got %s", a)
	}
	return nil
}

func checkG1(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	a, err := p.get(ctx, m.path)
	if err != nil {
		return err
	}
	p.that(a.status == http.StatusNotFound, "a read is 404 (its shape is E4's)", "got %s", a)
	return nil
}

func checkD2(ctx context.Context, p *probe) error {
	if _, err := p.main(ctx); err != nil {
		return err
	}
	a, rows, err := p.images(ctx, "?host="+p.placement.Host)
	if err != nil {
		return err
	}
	_, ready := p.imageReady(rows)
	p.that(ready, "the image is still ready on its host", "got %s", a)
	return nil
}

func checkD4(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	a, l, err := p.instances(ctx, "?host="+p.placement.Host)
	if err != nil {
		return err
	}
	p.that(len(l.named(m.name)) == 0, "what was deleted is not listed", "got %s", a)
	again, err := p.create(ctx, p.least("main").with(spec{"uid": p.value("second")}))
	if err != nil {
		p.that(false, "its name is free for another uid", "%v", err)
		return nil
	}
	if again.attempts == 1 {
		p.that(again.made.status == http.StatusCreated, "its name is free for another uid", "got %s", again.made)
	}
	return p.checkDeletesAtOnce(ctx, again)
}

// checkDeletesAtOnce deletes an instance several times at once, beside a create
// of it.
func (p *probe) checkDeletesAtOnce(ctx context.Context, m *specimen) error {
	const callers = 3
	var wg sync.WaitGroup
	var errs [callers + 1]error
	for i := range callers {
		wg.Go(func() { errs[i] = p.remove(ctx, p.id(m.name)) })
	}
	var beside answer
	wg.Go(func() {
		beside, errs[callers] = p.send(ctx, call{method: http.MethodPost, path: "/instances", body: m.spec.json()})
	})
	wg.Wait()
	p.that(errors.Join(errs[:]...) == nil, fmt.Sprintf("%d deletes at once beside a create are success", callers), "%v", errors.Join(errs[:]...))
	p.that(beside.ok() || beside.problem().Kind == "Transient", "that create is success or Transient", "got %s", beside)
	if err := p.remove(ctx, p.id(m.name)); err != nil {
		return err
	}
	_, l, err := p.instances(ctx, "?host="+p.placement.Host)
	if err != nil {
		return err
	}
	p.that(len(l.named(m.name)) == 0, "one more leaves nothing", "it is still listed")
	return nil
}
