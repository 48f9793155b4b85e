package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
)

var createRules = []rule{
	{"C1", "a repeated create answers with the instance as it is and makes nothing", checkC1},
	{"C3", "a create answers once the machine runs", checkC3},
	{"C4", "unknown placement, image and size are Permanent and name the known ones", checkC4},
	{"C5", "another uid is refused, a missing one is adopted", checkC5},
	{"C10", "patience ends in CreateInProgress; the work goes on and a repeat joins it", checkC10},
	{"E5", "a caller that leaves leaves nothing in the way of a repeat", checkE5},
	{"dryRun", "a dry run checks everything and makes nothing", checkDryRun},
	{"Prefer", "wait=N is taken and told, what is not understood is ignored", checkPrefer},
}

func (s *session) post(ctx context.Context, sp spec, prefer string) (answer, error) {
	s.expect(sp)
	return s.ask(ctx, call{method: http.MethodPost, path: "/instances", body: sp.json(), header: map[string]string{"Prefer": prefer}})
}

func checkC1(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	if m.attempts == 1 {
		p.that(m.made.status == http.StatusCreated, "the create that makes it is 201", "got %s", m.made)
	}
	again, err := p.create(ctx, m.spec.with(spec{"tags": map[string]string{"role": "repeat"}, "cloudInit": "#!/bin/sh\n"}))
	if err != nil {
		p.that(false, "a repeat is 200", "%v", err)
		return nil
	}
	p.that(again.made.status == http.StatusOK, "a repeat is 200", "got %s", again.made)
	p.that(again.told.ID == m.told.ID, "a repeat has the same id", "got %s, then %s", m.told.ID, again.told.ID)
	p.that(again.told.Tags["role"] != "repeat", "a repeat's other fields change nothing", "got %s", again.made)
	return p.checkRace(ctx)
}

// checkRace sends one create several times at once.
func (p *probe) checkRace(ctx context.Context) error {
	const callers = 4
	var wg sync.WaitGroup
	var made [callers]*specimen
	var errs [callers]error
	sp := p.least("race").with(spec{"uid": p.value("race")})
	for i := range callers {
		wg.Go(func() { made[i], errs[i] = p.create(ctx, sp) })
	}
	wg.Wait()
	ids, created, patient := map[string]bool{}, 0, true
	for i, m := range made {
		if errs[i] != nil {
			return errs[i]
		}
		ids[m.told.ID] = true
		patient = patient && m.attempts == 1
		if m.made.status == http.StatusCreated {
			created++
		}
	}
	p.that(len(ids) == 1 && (created == 1 || created == 0 && !patient), fmt.Sprintf("of %d creates at once one is 201, and all have one id", callers),
		"%d are 201, ids %v", created, ids)
	_, l, err := p.instances(ctx, "")
	if err != nil {
		return err
	}
	p.that(len(l.named(p.name("race"))) <= 1, "they make one instance", "there are %d", len(l.named(p.name("race"))))
	return nil
}

func checkC3(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	p.that(m.told.State != "Stopped", "the instance that it answers with is not Stopped", "got %s", m.made)
	after, err := decode[machine](m.after)
	p.that(err == nil && after.State != "Stopped", "a read right after finds it, not Stopped", "got %s", m.after)
	return nil
}

func checkC4(ctx context.Context, p *probe) error {
	known := map[string]string{"placement": p.placement.Name, "image": p.placement.Image, "size": p.placement.Size}
	for field, reason := range inOrder(map[string]string{"placement": "UnknownPlacement", "image": "UnknownImage", "size": "UnknownSize"}) {
		a, err := p.dryRun(ctx, p.least("unknown").with(spec{field: p.value(field)}))
		if err != nil {
			return err
		}
		p.refuses(a, http.StatusUnprocessableEntity, "Permanent", reason, "an unknown "+field)
		p.that(strings.Contains(a.problem().Detail, known[field]), "its message names the known ones", "got %s", a)
	}
	a, err := p.dryRun(ctx, p.least("named").with(spec{"image": p.placement.Image, "size": p.placement.Size}))
	if err != nil {
		return err
	}
	p.that(a.ok(), "a request may name image and size itself", "got %s", a)
	return nil
}

func checkC5(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	for what, uid := range inOrder(map[string]string{"a create with another uid": p.value("other"), "a create without a uid": ""}) {
		a, err := p.post(ctx, m.spec.with(spec{"uid": uid}), "wait=45")
		if err != nil {
			return err
		}
		p.refuses(a, http.StatusConflict, "Permanent", "UIDMismatch", what)
	}
	bare, err := p.withoutUID(ctx)
	if err != nil {
		return err
	}
	uid := p.value("adopted")
	if _, err := p.create(ctx, bare.spec.with(spec{"uid": uid})); err != nil {
		p.that(false, "an instance without a uid takes that of a repeat", "%v", err)
		return nil
	}
	read, err := p.get(ctx, bare.path)
	if err != nil {
		return err
	}
	got, err := decode[machine](read)
	p.that(err == nil && got.uid() == uid, "an instance without a uid takes that of a repeat", "got %s", read)
	a, err := p.post(ctx, bare.spec.with(spec{"uid": p.value("other")}), "wait=45")
	if err != nil {
		return err
	}
	p.refuses(a, http.StatusConflict, "Permanent", "UIDMismatch", "a third uid after that")
	return nil
}

func checkC10(ctx context.Context, p *probe) error {
	sp := p.least("wait")
	p.expect(sp)
	a, err := p.send(ctx, call{method: http.MethodPost, path: "/instances", body: sp.json(), header: map[string]string{"Prefer": "wait=0"}})
	if err != nil {
		return err
	}
	if !a.ok() {
		p.refuses(a, http.StatusServiceUnavailable, "Transient", "CreateInProgress", "a create without patience")
	}
	joined, err := p.create(ctx, sp)
	p.that(err == nil, "a repeat joins it and succeeds", "%v", err)
	if err == nil {
		p.that(joined.told.Name == sp["name"], "with that instance", "got %s", joined.made)
	}
	return nil
}

func checkE5(ctx context.Context, p *probe) error {
	sp := p.least("left")
	p.expect(sp)
	hasty, leave := context.WithCancel(ctx)
	defer leave()
	// It leaves once the server has the request.
	hasty = httptrace.WithClientTrace(hasty, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { leave() }})
	_, _ = p.send(hasty, call{method: http.MethodPost, path: "/instances", body: sp.json()}) // whatever it hears
	_, err := p.create(ctx, sp)
	p.that(err == nil, "a create whose caller left succeeds when it is repeated", "%v", err)
	return nil
}

func checkDryRun(ctx context.Context, p *probe) error {
	sp := p.least("dry")
	p.expect(sp)
	a, err := p.dryRun(ctx, sp)
	if err != nil {
		return err
	}
	plan, _ := decode[struct {
		Host, ImageState            string
		NeededBytes, AvailableBytes *int64
	}](a)
	complete := plan.NeededBytes != nil && plan.AvailableBytes != nil && *plan.NeededBytes > 0 && *plan.AvailableBytes >= *plan.NeededBytes
	p.that(a.status == http.StatusOK && plan.Host == p.placement.Host && complete, "it is 200 with host, neededBytes and availableBytes", "got %s", a)
	p.that(isImageState(plan.ImageState), "imageState is a known word", "got %s", a)
	read, err := p.get(ctx, "/instances/"+p.id(p.name("dry")))
	if err != nil {
		return err
	}
	p.that(read.status == http.StatusNotFound, "nothing is made", "got %s", read)
	return nil
}

func checkPrefer(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	for prefer, applied := range inOrder(map[string]string{
		"wait=7": "wait=7", "respond-async, wait=9": "wait=9", "wait=soon": "", "handling=lenient": "",
	}) {
		a, err := p.post(ctx, m.spec, prefer)
		if err != nil {
			return err
		}
		got := a.header.Get("Preference-Applied")
		what := prefer + " is told in Preference-Applied"
		if applied == "" {
			what = prefer + " is ignored"
		}
		p.that(a.ok() && got == applied, what, "got %q and %s", got, a)
	}
	return nil
}
