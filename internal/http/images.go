package http

import (
	"net/http"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
)

// ListImages serves GET /images.
func (h *handlers) ListImages(w http.ResponseWriter, r *http.Request, params gen.ListImagesParams) {
	recordFrom(r.Context()).host = value(params.Host)
	rows, err := h.service.Images(r.Context(), value(params.Host))
	if err != nil {
		fail(w, r, err)
		return
	}
	respond(w, r, http.StatusOK, imagesJSON(rows))
}

// PullImage serves POST /images/{name}/pull.
func (h *handlers) PullImage(w http.ResponseWriter, r *http.Request, name gen.ImageName, params gen.PullImageParams) {
	recordFrom(r.Context()).host = value(params.Host)
	if err := h.service.PullImage(r.Context(), name, value(params.Host)); err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// DeleteImage serves DELETE /images/{name}.
func (h *handlers) DeleteImage(w http.ResponseWriter, r *http.Request, name gen.ImageName, params gen.DeleteImageParams) {
	recordFrom(r.Context()).host = value(params.Host)
	if err := h.service.RemoveImage(r.Context(), name, value(params.Host), value(params.Identity)); err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
