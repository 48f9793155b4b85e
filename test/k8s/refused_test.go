//go:build k8s

package k8s_test

import (
	"strings"
	"testing"
)

// mistakes are changes to a rendered chart that the API server must not take. Were one of them
// admitted, the admission of the right ones would say nothing.
var mistakes = map[string]struct{ right, wrong, refusal string }{
	"an unknown field":            {"runAsNonRoot:", "runAsNonRoots:", "unknown field"},
	"a port out of range":         {"containerPort: 8080", "containerPort: 808080", "must be between 1 and 65535"},
	"an unknown field of a CRD":   {"scrapeTimeout:", "scrapeTimeouts:", "unknown field"},
	"a test Pod that may be root": {"runAsNonRoot: true", "runAsNonRoot: false", "violates PodSecurity"},
	"a time that is none":         {"scrapeTimeout: 10s", "scrapeTimeout: soon", "should match"},
}

// refusals has the API server judge what is wrong in one way each.
func refusals(t *testing.T) {
	rendered := helm(t, "template", release, chart, "--values", chart+"/ci/full-values.yaml")
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(rendered, mistake.right) {
				t.Fatalf("the rendered chart has no %s", mistake.right)
			}
			out, err := dryRun(t, strings.ReplaceAll(rendered, mistake.right, mistake.wrong))
			if err == nil || !strings.Contains(err.Error(), mistake.refusal) {
				t.Errorf("got %v, want a refusal with %q\n%s", err, mistake.refusal, out)
			}
		})
	}
}

// dryRun has the API server judge manifests without keeping them, and returns
// all that kubectl said.
func dryRun(t *testing.T, manifests string) (string, error) {
	t.Helper()
	return try(t, manifests, "sh", "-c", "exec kubectl apply --namespace "+namespace+" --dry-run=server --validate=strict -f - 2>&1")
}
