package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// commonRules are about all answers of the run.
var commonRules = []rule{
	{"S1", "no value of a body is repeated, user data nowhere at all", checkS1},
	{"Retry-After", "Transient and QuotaExceeded say when to come again, others do not", checkRetryAfter},
	{"Cache-Control", "no answer is cacheable", checkCacheControl},
}

// checkS1 sends values of its own in every place of a body where they are wrong,
// and then looks through all answers of the run.
func checkS1(ctx context.Context, p *probe) error {
	least := p.least("secret")
	values := map[string]any{
		"name": "V_" + p.run, "uid": p.value("a") + " b", "placement": p.value("placement"), "image": p.value("image"), "size": p.value("size"),
		"cloudInit": map[string]string{"a": p.value("init")}, "cloudInitBase64": p.value("*"), "autostart": p.value("on"),
		"tags": map[string]any{"a": p.value("tag") + "\x01", "b": []string{p.value("list")}}, "other": p.value("unknown"),
	}
	bodies := [][]byte{
		least.with(values).json(),
		[]byte(p.value("no JSON")),
		[]byte(`{"name":"` + p.value("open")),
		append(least.json(), p.value("tail")...),
	}
	for field, value := range values {
		bodies = append(bodies, least.with(spec{field: value}).json())
	}
	for _, body := range bodies {
		c := call{method: http.MethodPost, path: "/instances?dryRun=true", body: body}
		if _, err := p.send(ctx, c); err != nil {
			return err
		}
	}
	var echoes, leaks []string
	problems := 0
	for _, a := range p.answers() {
		if strings.Contains(a.call.path, "/console") {
			continue // the guest's own words
		}
		if p.leaks(a) {
			leaks = append(leaks, fmt.Sprintf("%s %s: %s", a.call.method, a.call.path, a))
		}
		if a.ok() {
			continue
		}
		problems++
		if word := a.echo(); word != "" {
			echoes = append(echoes, fmt.Sprintf("%s %s repeats %q: %s", a.call.method, a.call.path, word, a))
		}
	}
	p.none(echoes, fmt.Sprintf("%d problems repeat no value of their requests' bodies", problems))
	p.none(leaks, fmt.Sprintf("%d answers do not hold the user data of any instance", len(p.answers())))
	return nil
}

// echo returns a value of the request's body that the answer repeats, or "".
func (a answer) echo() string {
	whole := a.everything()
	for _, value := range a.values {
		if bytes.Contains(whole, []byte(value)) {
			return value
		}
	}
	return ""
}

// leaks reports whether user data came back, plain or encoded.
func (p *probe) leaks(a answer) bool {
	whole := a.everything()
	encoded := base64.StdEncoding.EncodeToString([]byte(p.userData()))
	return bytes.Contains(whole, []byte(p.secret())) || bytes.Contains(whole, []byte(encoded))
}

// everything is header and body.
func (a answer) everything() []byte {
	var b bytes.Buffer
	_ = a.header.Write(&b) // to memory
	b.Write(a.body)
	return b.Bytes()
}

func checkRetryAfter(_ context.Context, p *probe) error {
	var missing, needless []string
	seen := 0
	for _, a := range p.answers() {
		got := a.problem()
		if a.ok() || got.Kind == "" {
			continue
		}
		header := a.header.Get("Retry-After")
		seconds, err := strconv.Atoi(header)
		what := fmt.Sprintf("%s %s: Retry-After is %q: %s", a.call.method, a.call.path, header, a)
		switch {
		case got.Kind == "Transient" || got.Kind == "QuotaExceeded":
			seen++
			if err != nil || seconds < 1 || got.RetryAfterSeconds == nil || *got.RetryAfterSeconds != seconds {
				missing = append(missing, what)
			}
		case header != "" || got.RetryAfterSeconds != nil:
			needless = append(needless, what)
		}
	}
	if seen == 0 {
		p.invisible("no answer of this run was Transient or QuotaExceeded")
		return nil
	}
	p.none(missing, fmt.Sprintf("they have it in whole seconds, and retryAfterSeconds too (seen: %d)", seen))
	p.none(needless, "no Permanent or NotFound answer has it")
	return nil
}

func checkCacheControl(_ context.Context, p *probe) error {
	var faults []string
	for _, a := range p.answers() {
		if got := a.header.Get("Cache-Control"); got != "no-store" {
			faults = append(faults, fmt.Sprintf("%s %s: %q", a.call.method, a.call.path, got))
		}
	}
	p.none(faults, fmt.Sprintf("%d answers are no-store", len(p.answers())))
	return nil
}
