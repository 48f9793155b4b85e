package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"
)

// CreateRequest is what to make.
type CreateRequest struct {
	// Name is a DNS-1123 label.
	Name string
	// UID is the caller's own identity of the instance, "" for none.
	UID string
	// Placement is one of the installation's.
	Placement string
	// Image and Size replace the placement's when not "".
	Image string
	Size  string
	// UserData is cloud-init user data; text goes as text, anything else as base64.
	UserData Secret
	Tags     map[string]string
	// NoAutostart keeps the machine off after its host rebooted.
	NoAutostart bool
}

func (r *CreateRequest) body() InstanceSpec {
	s := InstanceSpec{Name: r.Name, Placement: r.Placement, UID: optional(r.UID), Image: optional(r.Image), Size: optional(r.Size)}
	if len(r.Tags) > 0 {
		tags := Tags(r.Tags)
		s.Tags = &tags
	}
	switch {
	case len(r.UserData) == 0:
	case utf8.Valid(r.UserData):
		s.CloudInit = optional(string(r.UserData))
	default:
		s.CloudInitBase64 = optional(base64.StdEncoding.EncodeToString(r.UserData))
	}
	if r.NoAutostart {
		autostart := false
		s.Autostart = &autostart
	}
	return s
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func tagParameters(tags map[string]string) *[]string {
	out := make([]string, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, key+"="+tags[key])
	}
	return &out
}

// readJSON reads a success of one of the statuses into v.
func readJSON(res *http.Response, body []byte, v any, statuses ...int) error {
	if !slices.Contains(statuses, res.StatusCode) {
		return errNoSuccess
	}
	if mediaType(res.Header) != "application/json" || json.Unmarshal(body, v) != nil {
		return errors.New("a JSON body")
	}
	return nil
}

// readInstance takes an instance that is the one asked for.
func readInstance(res *http.Response, body []byte, out *Instance, isIt func(Instance) bool, statuses ...int) error {
	var in Instance
	if err := readJSON(res, body, &in, statuses...); err != nil {
		return err
	}
	if !ValidID(in.ID) || !in.State.Valid() || !isIt(in) {
		return errors.New("the instance asked for")
	}
	*out = in
	return nil
}

// readWholeList takes a list that is whole and is of what was asked for.
func readWholeList(res *http.Response, body []byte, tags map[string]string, out *InstanceList) error {
	var list InstanceList
	if err := readJSON(res, body, &list, http.StatusOK); err != nil {
		return err
	}
	if list.Items == nil || list.Unreachable == nil || len(list.Unreachable) > 0 {
		return errors.New("a whole list")
	}
	for _, in := range list.Items {
		if !ValidID(in.ID) || !hasTags(in.Tags, tags) {
			return errors.New("instances with the tags asked for")
		}
	}
	*out = list
	return nil
}

func hasTags(have Tags, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// readReport takes a health report, which comes with 503 when no host is ready.
func readReport(res *http.Response, body []byte, out *HealthReport) error {
	if mediaType(res.Header) == problemType {
		return errNoSuccess
	}
	var report HealthReport
	if err := readJSON(res, body, &report, http.StatusOK, http.StatusServiceUnavailable); err != nil {
		return err
	}
	if !report.Status.Valid() || report.Hosts == nil {
		return errors.New("a health report")
	}
	*out = report
	return nil
}

// readAny takes any success into what the caller gave.
func readAny(res *http.Response, body []byte, into any) error {
	if res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusMultipleChoices {
		return errNoSuccess
	}
	switch v := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*v = body
		return nil
	default:
		return readJSON(res, body, v, res.StatusCode)
	}
}
