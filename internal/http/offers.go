package http

import (
	"net/http"
	"runtime"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/api"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
)

// Build says which build answers. Empty fields are left out.
type Build struct {
	// Version is the tag, or a pseudo-version.
	Version string
	// Commit is the source's.
	Commit string
	// BuiltAt is when the source was committed, RFC 3339.
	BuiltAt string
}

// ListPlacements serves GET /placements.
func (h *handlers) ListPlacements(w http.ResponseWriter, r *http.Request) {
	respond(w, r, http.StatusOK, placementsJSON(h.service.Placements()))
}

// GetVersion serves GET /version.
func (h *handlers) GetVersion(w http.ResponseWriter, r *http.Request) {
	respond(w, r, http.StatusOK, gen.Version{
		Version: h.build.Version, Commit: optional(h.build.Commit), BuiltAt: optional(h.build.BuiltAt), GoVersion: runtime.Version(),
	})
}

// GetOpenAPI serves GET /openapi.yaml.
func (h *handlers) GetOpenAPI(w http.ResponseWriter, r *http.Request) { serveContract(w, r) }

// serveContract answers with the contract; the page that renders it reads it too.
func serveContract(w http.ResponseWriter, r *http.Request) {
	respondBytes(w, r, http.StatusOK, "application/yaml", api.OpenAPI)
}
