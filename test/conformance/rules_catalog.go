package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

var catalogRules = []rule{
	{"placements", "what a create may ask for, by name", checkPlacements},
	{"version", "which build answers", checkVersion},
	{"openapi", "the service hands out its own contract", checkOpenAPI},
}

func checkPlacements(ctx context.Context, p *probe) error {
	a, err := p.get(ctx, "/placements")
	if err != nil {
		return err
	}
	p.that(mediaType(a) == "application/json", "the answer is JSON", "got %s", a)
	offered, err := decode[struct{ Items []placement }](a)
	if err != nil {
		return err
	}
	var faults []string
	names := map[string]bool{}
	for _, o := range offered.Items {
		names[o.Name] = true
		if o.Name == "" || o.Host == "" || o.Image == "" || o.Size == "" {
			faults = append(faults, fmt.Sprintf("%+v", o))
		}
	}
	p.none(faults, "each has name, host, image and size")
	byName := slices.IsSortedFunc(offered.Items, func(a, b placement) int { return strings.Compare(a.Name, b.Name) })
	p.that(byName, "they are sorted by name", "got %s", a)
	p.that(len(names) == len(offered.Items), "no name is there twice", "got %s", a)
	return nil
}

func checkVersion(ctx context.Context, p *probe) error {
	a, err := p.get(ctx, "/version")
	if err != nil {
		return err
	}
	v, err := decode[struct{ Version, GoVersion string }](a)
	if err != nil {
		return err
	}
	p.version = v.Version
	p.that(v.Version != "" && v.GoVersion != "", "version and goVersion are there", "got %s", a)
	return nil
}

func checkOpenAPI(ctx context.Context, p *probe) error {
	a, err := p.get(ctx, "/openapi.yaml")
	if err != nil {
		return err
	}
	p.that(a.status == http.StatusOK && mediaType(a) == "application/yaml", "it is YAML", "got %s", a)
	text := "\n" + string(a.body)
	p.that(strings.Contains(text, "\nopenapi: 3") && strings.Contains(text, "\n  /instances:"), "it describes the API", "got %s", a)
	return nil
}

// mediaType is the answer's, without parameters.
func mediaType(a answer) string {
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	return strings.TrimSpace(media)
}
