package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// defaultConsoleBytes is how much of the console's end is shown unasked.
const defaultConsoleBytes = 64 << 10

// handlers are the operations of the contract. Their requests are validated
// already; what is left to check here is what a schema cannot say.
type handlers struct {
	service Service
	build   Build
	maxWait time.Duration
}

// CreateInstance serves POST /instances.
func (h *handlers) CreateInstance(w http.ResponseWriter, r *http.Request, params gen.CreateInstanceParams) {
	var body gen.InstanceSpec
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		// The validator let it through, so the fault is ours; its text may hold values.
		fail(w, r, fmt.Errorf("decode a valid body: %T", err))
		return
	}
	spec, err := specOf(body)
	if err != nil {
		fail(w, r, err)
		return
	}
	recordFrom(r.Context()).about("", spec.Name)
	if value(params.DryRun) {
		h.dryRun(w, r, spec)
		return
	}
	wait, applied := patience(value(params.Prefer), h.maxWait)
	if applied {
		w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", wait/time.Second))
	}
	created, err := h.service.Create(r.Context(), spec, wait)
	if err != nil {
		fail(w, r, err)
		return
	}
	id := created.Instance.ID
	recordFrom(r.Context()).about(id.Host, id.Name)
	status := http.StatusOK
	if created.Made {
		status = http.StatusCreated
		w.Header().Set("Location", instancesPrefix+id.String())
	}
	respond(w, r, status, instanceJSON(created.Instance))
}

func (h *handlers) dryRun(w http.ResponseWriter, r *http.Request, spec instance.Spec) {
	plan, err := h.service.DryRun(r.Context(), spec)
	if err != nil {
		fail(w, r, err)
		return
	}
	recordFrom(r.Context()).about(plan.Host, spec.Name)
	respond(w, r, http.StatusOK, planJSON(plan))
}

// ListInstances serves GET /instances.
func (h *handlers) ListInstances(w http.ResponseWriter, r *http.Request, params gen.ListInstancesParams) {
	f, err := filterOf(params)
	if err != nil {
		fail(w, r, err)
		return
	}
	page, err := h.service.List(r.Context(), f)
	if err != nil {
		fail(w, r, err)
		return
	}
	recordFrom(r.Context()).skipped = page.Skipped
	respond(w, r, http.StatusOK, listJSON(page))
}

// GetInstance serves GET /instances/{id}.
func (h *handlers) GetInstance(w http.ResponseWriter, r *http.Request, id gen.InstanceID) {
	in, err := h.service.Get(r.Context(), id)
	if err != nil {
		fail(w, r, err)
		return
	}
	respond(w, r, http.StatusOK, instanceJSON(in))
}

// DeleteInstance serves DELETE /instances/{id}.
func (h *handlers) DeleteInstance(w http.ResponseWriter, r *http.Request, id gen.InstanceID, params gen.DeleteInstanceParams) {
	if err := h.service.Delete(r.Context(), id, value(params.UID)); err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// GetConsole serves GET /instances/{id}/console.
func (h *handlers) GetConsole(w http.ResponseWriter, r *http.Request, id gen.InstanceID, params gen.GetConsoleParams) {
	maxBytes := int64(defaultConsoleBytes)
	if params.Bytes != nil {
		maxBytes = *params.Bytes
	}
	text, err := h.service.Console(r.Context(), id, maxBytes)
	if err != nil {
		fail(w, r, err)
		return
	}
	respondBytes(w, r, http.StatusOK, "text/plain; charset=utf-8", text)
}
