package http

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// The paths of the pages for people. They are no part of the contract.
const (
	statusPath = "/"
	docsPath   = "/docs"
)

//go:embed pages
var pageFiles embed.FS

// isPage reports whether path is a page for people or belongs to one. Browsers
// may come to these with a token as password; nothing else takes that, because a
// browser sends it along with whatever another site makes it ask for.
func isPage(path string) bool {
	return path == statusPath || path == docsPath || strings.HasPrefix(path, docsPath+"/")
}

// routePages adds the pages for people to r.
func routePages(r chi.Router, o Options) error {
	status, err := newStatusPage(o.Overview, o.Build)
	if err != nil {
		return err
	}
	docs, err := newDocsPage()
	if err != nil {
		return err
	}
	r.Get(statusPath, status.serve)
	r.Get(docsPath, docs.servePage)
	r.Get(docsPath+"/redoc.js", docs.serveRenderer)
	r.Get(docsPath+"/openapi.yaml", serveContract)
	return nil
}

// page is a template with its style sheet and script inside, and the policy that
// lets the browser run those two and nothing else.
type page struct {
	template *template.Template
	style    template.CSS
	script   template.JS
	policy   string
}

// newPage reads name.html, name.css and name.js. Sources are the policy's
// further directives.
func newPage(name string, funcs template.FuncMap, sources ...string) (*page, error) {
	var files [3]string
	for i, suffix := range []string{".html", ".css", ".js"} {
		text, err := pageFiles.ReadFile("pages/" + name + suffix)
		if err != nil {
			return nil, fmt.Errorf("read page: %w", err)
		}
		files[i] = string(text)
	}
	t, err := template.New(name).Funcs(funcs).Parse(files[0])
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	policy := append([]string{
		"default-src 'none'", "connect-src 'self'", "img-src data:",
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	}, sources...)
	return &page{
		template: t,
		// Both are files of this program, not anything that came from outside.
		style: template.CSS(files[1]), script: template.JS(files[2]),
		policy: strings.NewReplacer("{style}", hashSource(files[1]), "{script}", hashSource(files[2])).Replace(strings.Join(policy, "; ")),
	}, nil
}

// hashSource is the expression of a content security policy that allows an
// inline element with exactly this text.
func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// content is what a page's template is given.
type content struct {
	Style  template.CSS
	Script template.JS
	View   any
}

// serve answers r with the page showing view.
func (p *page) serve(w http.ResponseWriter, r *http.Request, view any) {
	var buf bytes.Buffer
	if err := p.template.Execute(&buf, content{p.style, p.script, view}); err != nil {
		fail(w, r, fmt.Errorf("make page %s: %w", p.template.Name(), err))
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	respondBytes(w, r, http.StatusOK, "text/html; charset=utf-8", buf.Bytes())
}
